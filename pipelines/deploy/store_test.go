package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

func TestApplyNumbersRevisions(t *testing.T) {
	r := newRig(t)
	first := r.apply("p", "one")
	require.Equal(t, 1, first.Number)
	require.Equal(t, deploy.WantRunning, first.Wanted)
	require.False(t, first.AppliedAt.IsZero())
	require.Equal(t, 2, r.apply("p", "two").Number)
	require.Equal(t, 1, r.apply("other", "one").Number)

	got, err := r.store.Get(r.ctx(), "p")
	require.NoError(t, err)
	require.Equal(t, "two", got.Text)
	past, err := r.store.History(r.ctx(), "p")
	require.NoError(t, err)
	require.Len(t, past, 2)
	require.Equal(t, "one", past[0].Text)
	all, err := r.store.List(r.ctx())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "other", all[0].Name)
	_, err = r.store.Get(r.ctx(), "nobody")
	require.ErrorIs(t, err, deploy.ErrUnknownPipeline)
}

// TestAppliedAtOnce lets many writers apply at the same time. Every number is given once, and what
// is wanted in the end is the newest revision.
func TestAppliedAtOnce(t *testing.T) {
	r := newRig(t)
	const writers = 8
	var wg sync.WaitGroup
	errs, numbers := make([]error, writers), make([]int, writers)
	for i := range writers {
		store, err := deploy.OpenStore(r.ctx(), r.connect)
		require.NoError(t, err)
		t.Cleanup(store.Close)
		wg.Go(func() {
			rev, err := store.Apply(r.ctx(), deploy.Revision{Name: "p", Text: fmt.Sprint("text ", i)})
			errs[i], numbers[i] = err, rev.Number
		})
	}
	wg.Wait()
	byNumber := map[int]string{}
	for i, err := range errs {
		if errors.Is(err, deploy.ErrConflict) {
			continue
		}
		require.NoError(t, err)
		require.NotContains(t, byNumber, numbers[i])
		byNumber[numbers[i]] = fmt.Sprint("text ", i)
	}
	require.NotEmpty(t, byNumber)
	past, err := r.store.History(r.ctx(), "p")
	require.NoError(t, err)
	require.Len(t, past, len(byNumber), "the losers are not in the history")
	for i, rev := range past {
		require.Equal(t, i+1, rev.Number)
		require.Equal(t, byNumber[rev.Number], rev.Text)
	}
	now, err := r.store.Get(r.ctx(), "p")
	require.NoError(t, err)
	require.Equal(t, past[len(past)-1].Text, now.Text)
}

func TestWantedAndForgotten(t *testing.T) {
	r := newRig(t)
	r.apply("p", "one")
	stopped, err := r.store.SetWanted(r.ctx(), "p", deploy.WantStopped)
	require.NoError(t, err)
	require.Equal(t, 1, stopped.Number, "stopping makes no revision")
	now, err := r.store.Get(r.ctx(), "p")
	require.NoError(t, err)
	require.Equal(t, deploy.WantStopped, now.Wanted)
	_, err = r.store.SetWanted(r.ctx(), "nobody", deploy.WantStopped)
	require.ErrorIs(t, err, deploy.ErrUnknownPipeline)

	require.NoError(t, r.store.WriteStatus(r.ctx(), deploy.Status{Name: "p"}))
	require.NoError(t, r.store.Delete(r.ctx(), "p"))
	_, err = r.store.Get(r.ctx(), "p")
	require.ErrorIs(t, err, deploy.ErrUnknownPipeline)
	reported, err := r.store.Statuses(r.ctx())
	require.NoError(t, err)
	require.Empty(t, reported)
	require.Equal(t, 2, r.apply("p", "two").Number, "numbers are never used again")
}

func TestUnreadableRevisionHidesNoOther(t *testing.T) {
	r := newRig(t)
	r.apply("good", "one")
	r.apply("bad", "one")
	r.corrupt("bad")
	all, err := r.store.List(r.ctx())
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = r.store.Get(r.ctx(), "bad")
	require.ErrorIs(t, err, deploy.ErrUnreadable)
	require.ErrorContains(t, err, "__millstream_pipelines-0 offset")
	require.Equal(t, 2, r.apply("bad", "two").Number, "it can be replaced")
	_, err = r.store.Get(r.ctx(), "bad")
	require.NoError(t, err)
}

// corrupt writes what is no revision under a pipeline's name.
func (r *rig) corrupt(name string) {
	r.t.Helper()
	c, err := r.connect()
	require.NoError(r.t, err)
	defer c.Close()
	require.NoError(r.t, c.ProduceSync(r.ctx(), &kgo.Record{Topic: deploy.RevisionTopic,
		Key: []byte(name), Value: []byte("{not json")}).FirstErr())
}

func TestHashIsOfWhatRuns(t *testing.T) {
	a := deploy.Revision{Name: "p", Number: 1, ID: "x", Text: "t", Wanted: deploy.WantRunning}
	b := a
	b.Number, b.ID, b.Wanted = 2, "y", deploy.WantStopped
	require.Equal(t, a.Hash(), b.Hash())
	b.Vars = map[string]string{"k": "v"}
	require.NotEqual(t, a.Hash(), b.Hash())
}

// write appends a revision as an Apply that was overtaken does.
func (r *rig) write(rev deploy.Revision) {
	r.t.Helper()
	r.writeAs(rev.Name, rev)
}

func (r *rig) writeAs(key string, rev deploy.Revision) {
	r.t.Helper()
	data, err := json.Marshal(rev)
	require.NoError(r.t, err)
	c, err := r.connect()
	require.NoError(r.t, err)
	defer c.Close()
	require.NoError(r.t, c.ProduceSync(r.ctx(), &kgo.Record{Topic: deploy.RevisionTopic,
		Key: []byte(key), Value: data}).FirstErr())
}
