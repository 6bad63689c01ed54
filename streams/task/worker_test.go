package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errCrash = errors.New("crash")

// expected computes the outputs of the counter by hand from the input alone.
func expected(m *client.Memory, partitions int32) map[string][]string {
	lanes := map[string][]string{}
	for p := range partitions {
		counts := map[string]int{}
		who := fmt.Sprintf(" by app.counts.%d", p)
		for event, r := range m.Records(client.TopicPartition{Topic: "in", Partition: p}) {
			counts[string(r.Key)]++
			tp := client.TopicPartition{Topic: "out", Partition: record.PartitionForKey(r.Key, 3)}
			lanes[tp.String()+who] = append(lanes[tp.String()+who], fmt.Sprintf("%d %s %s=%d @%d",
				event<<16+1, r.Key, r.Key, counts[string(r.Key)], event))
			if event%3 == 0 {
				lanes["side-0"+who] = append(lanes["side-0"+who],
					fmt.Sprintf("%d %s third %d @%d", event<<16+2, r.Key, event, event))
			}
		}
	}
	return lanes
}

func TestWorkerBoundedRun(t *testing.T) {
	m := filled(t, 2, 500)
	w, err := runWorker(t.Context(), t, countOptions(m, 2, t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, expected(m, 2), lanesOf(t, m, outTopics))
	st := w.Status()
	require.Empty(t, st.Error)
	for _, task := range st.Tasks {
		require.Equal(t, Done, task.Phase)
		require.EqualValues(t, 250, task.Processed)
		require.Len(t, task.Inputs, 1)
		require.False(t, task.Inputs[0].Seen.IsZero())
		require.Equal(t, []InputStatus{{Topic: "in", Partition: task.Partition, Position: 250,
			End: 250, Seen: task.Inputs[0].Seen}}, task.Inputs)
	}
	offsets, err := m.Admin().CommittedOffsets(t.Context(), "app")
	require.NoError(t, err)
	require.Equal(t, map[client.TopicPartition]int64{
		{Topic: "in", Partition: 0}: 250, {Topic: "in", Partition: 1}: 250,
	}, offsets)
	require.Equal(t, "compact", m.Configs("app-counts-changelog")["cleanup.policy"])
}

// crasher fails the k-th request and all that follow, as a killed process would: before the request
// was done, or after, with the answer lost.
type crasher struct {
	left  atomic.Int64
	after bool
	dead  atomic.Bool
	kinds map[string]bool
}

func (c *crasher) hook(after bool) func(client.Op) error {
	return func(op client.Op) error {
		if c.dead.Load() {
			return errCrash
		}
		if c.kinds != nil && !c.kinds[op.Kind] || after != c.after {
			return nil
		}
		if c.left.Add(-1) == 0 {
			c.dead.Store(true)
			return errCrash
		}
		return nil
	}
}

func crashAt(m *client.Memory, k int64, after bool, kinds map[string]bool) *crasher {
	c := &crasher{after: after, kinds: kinds}
	c.left.Store(k)
	m.SetFaults(c.hook(false), c.hook(true))
	return c
}

// TestCrashMatrix kills the worker at its k-th request for every k until a run needs fewer, before
// and after the request is done; it is restarted from its own files or from nothing, until it is
// through. Outputs are those of a run without crashes: nothing lost, nothing twice.
func TestCrashMatrix(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, file := range []stateFile{fileBehind, fileAtOnce, fileLost} {
			name := fmt.Sprintf("answer lost=%v, state %s", after, file)
			t.Run(name, func(t *testing.T) {
				for k := int64(1); ; k++ {
					if crashOnce(t, k, after, file) {
						require.Greater(t, k, int64(30), "crashes were injected")
						return
					}
				}
			})
		}
	}
}

// stateFile is what is in the state file when a worker crashes.
type stateFile string

const (
	fileBehind stateFile = "behind the commit"
	fileAtOnce stateFile = "written with each commit"
	fileLost   stateFile = "lost"
)

// crashOnce reports whether the first run ended before its k-th request.
func crashOnce(t *testing.T, k int64, after bool, file stateFile) (through bool) {
	m := filled(t, 1, 60)
	m.SetMaxPoll(7)
	dir := t.TempDir()
	c := crashAt(m, k, after, nil)
	o := countOptions(m, 1, dir)
	if file == fileAtOnce {
		o.State.FlushBytes = 1
	}
	_, err := runWorker(t.Context(), t, o)
	through = !c.dead.Load()
	m.SetFaults(nil, nil)
	if through {
		require.NoError(t, err)
	}
	if file == fileLost {
		dir = t.TempDir()
	}
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	require.Equal(t, expected(m, 1), lanesOf(t, m, outTopics), "crash at request %d", k)
	requireState(t, m, dir)
	return through
}

// requireState checks the counts in the state file against the input.
func requireState(t *testing.T, m *client.Memory, dir string) {
	t.Helper()
	infos, err := m.Admin().Topics(t.Context(), "app-counts-changelog")
	require.NoError(t, err)
	db, err := state.Open(state.Options{Path: filepath.Join(dir, "app", "counts-0.db"),
		Identity: state.Identity{Task: "app.counts.0", Fingerprint: "f",
			Changelog: infos["app-counts-changelog"].ID}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	want := map[string]byte{}
	for _, r := range m.Records(client.TopicPartition{Topic: "in"}) {
		want[string(r.Key)]++
	}
	have := map[string]byte{}
	require.NoError(t, db.Store("counts").Scan(nil, nil, func(k, v []byte) error {
		have[string(k)] = v[7]
		return nil
	}))
	require.Equal(t, want, have)
}

// TestManyCrashes crashes again and again at random points, with state kept, lost and compacted in
// between, with random poll sizes and commit intervals, on several tasks.
func TestManyCrashes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			m := filled(t, 3, 400)
			dir := t.TempDir()
			for try := 0; ; try++ {
				require.Less(t, try, 200)
				m.SetMaxPoll(1 + rnd.IntN(40))
				o := countOptions(m, 3, dir)
				o.batch = 1 + rnd.IntN(30)
				c := crashAt(m, 1+rnd.Int64N(120), rnd.IntN(2) == 0, nil)
				_, err := runWorker(t.Context(), t, o)
				m.SetFaults(nil, nil)
				if err == nil && !c.dead.Load() {
					break
				}
				switch rnd.IntN(4) {
				case 0:
					dir = t.TempDir()
				case 1: // the cleaner runs, but not over the last hour: up to the last commit
					compactCommitted(m, "app-counts-changelog", 3)
				}
			}
			require.Equal(t, expected(m, 3), lanesOf(t, m, outTopics))
		})
	}
}

// compactCommitted compacts the changelogs that end with a commit record; the others hold rows the
// compaction lag keeps the cleaner from.
func compactCommitted(m *client.Memory, topic string, partitions int32) {
	for p := range partitions {
		tp := client.TopicPartition{Topic: topic, Partition: p}
		rows := m.Records(tp)
		if len(rows) > 0 && state.IsMetaKey(rows[len(rows)-1].Key) {
			m.Compact(tp)
		}
	}
}

// TestUncommittedRowsDoNotCount: rows of a transaction that was not committed are not restored,
// also when their sender is dead and nobody has ended it.
func TestUncommittedRowsDoNotCount(t *testing.T) {
	m := filled(t, 1, 30)
	_, err := runWorker(t.Context(), t, countOptions(m, 1, t.TempDir()))
	require.NoError(t, err)
	log := client.TopicPartition{Topic: "app-counts-changelog"}
	// a commit that died after its rows: a wrong count, and a key that does not exist
	dead, err := m.Transactor(t.Context(), "app.counts.0")
	require.NoError(t, err)
	_, err = dead.Send(t.Context(), log, []record.Record{
		{Key: []byte("k\x06countskey-1"), Value: make([]byte, 8)},
		{Key: []byte("k\x06countsghost"), Value: make([]byte, 8)}})
	require.NoError(t, err)
	require.NoError(t, m.Append(client.TopicPartition{Topic: "in"},
		record.Record{Key: []byte("key-2"), Value: []byte("x")}))
	dir := t.TempDir()
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	require.Equal(t, expected(m, 1), lanesOf(t, m, outTopics))
	requireState(t, m, dir)
	require.ErrorIs(t, dead.Commit(t.Context(), "app", nil), client.ErrLost)
	m.Compact(log)
	dir = t.TempDir()
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	requireState(t, m, dir)
}

// TestMuchIsCommittedBeforeTheInterval: what a crash would have to do again is bounded by bytes,
// too.
func TestMuchIsCommittedBeforeTheInterval(t *testing.T) {
	commits := func(bytes int64) (n int) {
		m := filled(t, 1, 60)
		o := countOptions(m, 1, "")
		o.CommitInterval, o.CommitBytes = time.Hour, bytes
		_, err := runWorker(t.Context(), t, o)
		require.NoError(t, err)
		for _, r := range m.Records(client.TopicPartition{Topic: "app-counts-changelog"}) {
			if state.IsMetaKey(r.Key) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, commits(1<<20), "where it began and at the end")
	require.GreaterOrEqual(t, commits(1), 5, "each batch of 16 records")
}

func TestErrorKeepsPositionAndSaysWhy(t *testing.T) {
	m := filled(t, 1, 20)
	in := client.TopicPartition{Topic: "in"}
	require.NoError(t, m.Append(in, record.Record{Key: []byte("k"), Value: []byte("poison")}))
	w, err := runWorker(t.Context(), t, countOptions(m, 1, t.TempDir()))
	require.ErrorContains(t, err, "task app.counts.0: poison record")
	st := w.Status()
	require.Contains(t, st.Error, "poison record")
	require.Equal(t, Failed, st.Tasks[0].Phase)
	require.Contains(t, st.Tasks[0].LastError, "poison record")
	require.LessOrEqual(t, st.Tasks[0].Inputs[0].Position, int64(20))
}

// breaking is a counter that fails half way through its second batch, when the worker is told to
// stop at the same moment, as it is by the failure of another task. Like a Core, it must not be
// used then.
type breaking struct {
	*counter
	runs int
	stop func()
}

func (b *breaking) Run(limit int) (int, error) {
	n, err := b.counter.Run(limit)
	if b.runs++; b.runs == 2 && err == nil {
		b.out = nil
		b.stop()
		return n, errors.New("broken half way")
	}
	return n, err
}

func TestNothingOfABrokenBatchIsCommitted(t *testing.T) {
	m, dir := filled(t, 1, 100), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := countOptions(m, 1, dir)
	o.newCore = func(c CoreOptions) (processor, error) {
		inner, err := newCounter(c)
		return &breaking{counter: inner.(*counter), stop: cancel}, err
	}
	_, err := runWorker(ctx, t, o)
	require.ErrorContains(t, err, "broken half way")
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
}

func TestStopAndGoOn(t *testing.T) {
	m := filled(t, 2, 200)
	dir := t.TempDir()
	o := countOptions(m, 2, dir)
	o.Bounded = false
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := NewWorker(o)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		want := len(m.Records(client.TopicPartition{Topic: "in"}))
		require.Eventually(t, func() bool {
			in := w.Status().Tasks[0].Inputs
			return len(in) == 1 && in[0].Position == int64(want)
		}, waitFor, tick)
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, Stopped, w.Status().Tasks[0].Phase)
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in"},
			record.Record{Key: []byte("key-9")}))
	}
	o.Bounded = true
	_, err := runWorker(t.Context(), t, o)
	require.NoError(t, err)
	require.Equal(t, expected(m, 2), lanesOf(t, m, outTopics))
}

func TestEndInputEndsTheRun(t *testing.T) {
	m := filled(t, 1, 50)
	o := countOptions(m, 1, "")
	o.Filling = []string{"in"}
	w, err := NewWorker(o)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	in := client.TopicPartition{Topic: "in"}
	require.NoError(t, m.Append(in, record.Record{Key: []byte("last")}))
	w.EndInput("in", map[int32]int64{0: 51})
	require.NoError(t, <-ended)
	require.NoError(t, m.Append(in, record.Record{Key: []byte("not read")}))
	require.EqualValues(t, 51, w.Status().Tasks[0].Processed)
}

func TestStartRefuses(t *testing.T) {
	t.Run("missing topic", func(t *testing.T) {
		_, err := runWorker(t.Context(), t, countOptions(client.NewMemory(), 1, ""))
		require.ErrorIs(t, err, ErrTopics)
		require.ErrorContains(t, err, "topic in does not exist")
		require.ErrorContains(t, err, "topic side does not exist")
	})
	t.Run("other partition count", func(t *testing.T) {
		_, err := runWorker(t.Context(), t, countOptions(filled(t, 2, 0), 3, ""))
		require.ErrorIs(t, err, ErrTopics)
		require.ErrorContains(t, err, "topic in has 2 partitions, the pipeline was planned for 3")
	})
	t.Run("records deleted before they were read", func(t *testing.T) {
		m := filled(t, 1, 50)
		o := countOptions(m, 1, "")
		o.Until = map[client.TopicPartition]int64{{Topic: "in"}: 10}
		_, err := runWorker(t.Context(), t, o)
		require.NoError(t, err)
		m.Trim(client.TopicPartition{Topic: "in"}, 20)
		o.Until = nil
		_, err = runWorker(t.Context(), t, o)
		require.ErrorIs(t, err, ErrPosition)
		require.ErrorContains(t, err, "next record of in-0 is 10, but the log has [20, 50)")
	})
	t.Run("changelog lost", func(t *testing.T) {
		m := filled(t, 1, 50)
		dir := t.TempDir()
		_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
		require.NoError(t, err)
		m.Delete("app-counts-changelog")
		_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
		require.ErrorIs(t, err, state.ErrMismatch)
		require.ErrorContains(t, err, "changelog topic id")
		require.NoError(t, os.RemoveAll(dir))
		_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
		require.ErrorIs(t, err, ErrStateLost)
	})
	t.Run("changed topology", func(t *testing.T) {
		for _, dir := range []string{"", t.TempDir()} { // also where no file remembers
			m := filled(t, 1, 50)
			_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
			require.NoError(t, err)
			before := m.Records(client.TopicPartition{Topic: "app-counts-changelog"})
			o := countOptions(m, 1, dir)
			o.Topology.Subs[0].Fingerprint = "g"
			_, err = runWorker(t.Context(), t, o)
			require.ErrorIs(t, err, state.ErrMismatch)
			require.ErrorContains(t, err, "fingerprint")
			require.Equal(t, before, m.Records(client.TopicPartition{Topic: "app-counts-changelog"}))
			_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
			require.NoError(t, err, "nothing was changed")
		}
	})
	t.Run("two workers", func(t *testing.T) {
		m := filled(t, 1, 50)
		dir := t.TempDir()
		db, err := state.Open(state.Options{Path: filepath.Join(dir, "app", "counts-0.db")})
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Kill()) }()
		o := countOptions(m, 1, dir)
		o.LockWait = 10 * time.Millisecond
		_, err = runWorker(t.Context(), t, o)
		require.ErrorIs(t, err, state.ErrLocked)
	})
}

func TestStartRefusesAnInputThatLostItsEnd(t *testing.T) {
	o := countOptions(filled(t, 1, 50), 1, "")
	o.From = map[client.TopicPartition]int64{{Topic: "in"}: 60}
	_, err := runWorker(t.Context(), t, o)
	require.ErrorIs(t, err, ErrPosition)
	require.ErrorContains(t, err, "next record of in-0 is 60, but the log has [0, 50)")
	require.ErrorContains(t, err, "its end was lost")
}

func TestFromAndUntil(t *testing.T) {
	m := filled(t, 1, 50)
	in := client.TopicPartition{Topic: "in"}
	o := countOptions(m, 1, "")
	o.From = map[client.TopicPartition]int64{in: 10}
	o.Until = map[client.TopicPartition]int64{in: 25}
	w, err := runWorker(t.Context(), t, o)
	require.NoError(t, err)
	require.EqualValues(t, 15, w.Status().Tasks[0].Processed)
	w, err = runWorker(t.Context(), t, o)
	require.NoError(t, err)
	require.EqualValues(t, 0, w.Status().Tasks[0].Processed)
}
