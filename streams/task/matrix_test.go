package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// The rows of the crash matrix, each with its test:
//
//	nothing flushed; before the offsets; before the end   TestCrashMatrix, every request
//	end sent, no answer                                   TestMatrix_LostAnswerIsResolved
//	committed, not yet in bbolt                           TestCrashMatrix
//	kill -9 inside a bbolt commit                         state.TestKilledWhileFlushing
//	power loss without sync                               TestMatrix_PowerLoss
//	torn bbolt file                                       TestMatrix_TornFile
//	stored offset beyond the changelog's end              TestMatrix_StoredOffsetBeyondTheEnd
//	disk full under bbolt                                 state.TestFlushFailureKeepsRows
//	changelog deleted                                     TestStartRefuses
//	two workers, one state directory                      TestMatrix_SecondWorkerWaits
//	two workers, two directories                          TestMatrix_TwoOwners
//	revoke during commit                                  TestAnyScheduleGivesTheSameBytes
//	transaction timed out                                 TestMatrix_TransactionTimeout
//	transactional id expired while idle                   TestMatrix_TransactionalIDExpiresWhileIdle,
//	                                                      client.TestExpiredTransactionalIDIsLost
//	coordinator moved, UNSTABLE_OFFSET_COMMIT             client.TestOpenOffsetsHoldUpNobody,
//	                                                      client.TestMovingCoordinatorIsWaitedOut
//	broker gone                                           TestMatrix_BrokerGoneForTenMinutes
//	input deleted and made again, truncated               TestMatrix_InputMadeAgain, TestStartRefuses
//	output refused                                        TestMatrix_OutputRefused

// TestMatrix_LostAnswerIsResolved loses the answer to the k-th commit, for every k: the commit was
// done. The task is opened again, in the same run, and finds out.
func TestMatrix_LostAnswerIsResolved(t *testing.T) {
	for k := int64(1); ; k++ {
		m, dir := filled(t, 1, 60), t.TempDir()
		m.SetMaxPoll(7)
		var ends atomic.Int64
		m.SetFaults(nil, func(op client.Op) error {
			if op.Kind == "end" && ends.Add(1) == k {
				return errors.New("answer lost")
			}
			return nil
		})
		w, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
		require.NoError(t, err, "commit %d", k)
		require.Equal(t, expected(m, 1), lanesOf(t, m, outTopics), "commit %d", k)
		requireState(t, m, dir)
		if ends.Load() < k {
			require.Greater(t, k, int64(2))
			return
		}
		require.Contains(t, w.Status().Tasks[0].LastError, "answer lost")
	}
}

// TestMatrix_TransactionTimeout: the log gives up the open transaction at the k-th append.
func TestMatrix_TransactionTimeout(t *testing.T) {
	for k := int64(2); k < 30; k += 3 {
		m, dir := filled(t, 1, 60), t.TempDir()
		m.SetMaxPoll(7)
		var appends atomic.Int64
		m.SetFaults(func(op client.Op) error {
			if op.Kind == "append" && appends.Add(1) == k {
				m.Expire()
			}
			return nil
		}, nil)
		_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
		require.NoError(t, err)
		require.Equal(t, expected(m, 1), lanesOf(t, m, outTopics), "append %d", k)
		requireState(t, m, dir)
	}
}

// TestMatrix_TransactionalIDExpiresWhileIdle: nothing comes for weeks and the log forgets the id.
// The next records find the task lost, and it takes the id again by itself.
func TestMatrix_TransactionalIDExpiresWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := filled(t, 1, 30), t.TempDir()
		o := countOptions(m, 1, dir)
		o.Bounded = false
		w, err := NewWorker(o)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		for range 3 {
			time.Sleep(30 * 24 * time.Hour)
			m.Forget()
			for i := range 10 {
				require.NoError(t, m.Append(client.TopicPartition{Topic: "in"},
					record.Record{Key: fmt.Appendf(nil, "key-%d", i%3)}))
			}
		}
		time.Sleep(time.Hour)
		require.Contains(t, w.Status().Tasks[0].LastError, "forgotten")
		w.EndInput("in", map[int32]int64{0: 60})
		require.NoError(t, <-ended)
		requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
		requireState(t, m, dir)
	})
}

// TestMatrix_BrokerGoneForTenMinutes: nothing answers for ten minutes, then the log has given up
// what was open. The pipeline waits and goes on.
func TestMatrix_BrokerGoneForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 1, 300)
		m.SetMaxPoll(7)
		var requests atomic.Int64
		var once sync.Once
		back := make(chan struct{})
		m.SetFaults(func(op client.Op) error {
			if requests.Add(1) < 40 {
				return nil
			}
			once.Do(func() {
				time.AfterFunc(10*time.Minute, func() {
					m.Expire()
					close(back)
				})
			})
			<-back
			return nil
		}, nil)
		began := time.Now()
		_, err := runWorker(t.Context(), t, countOptions(m, 1, t.TempDir()))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Minute)
		requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
	})
}

// half runs the counter over the first records and leaves its files as a kill would.
func half(t *testing.T, m *client.Memory, dir string, tune func(*Options)) {
	t.Helper()
	o := countOptions(m, 1, dir)
	o.Until = map[client.TopicPartition]int64{{Topic: "in"}: 25}
	if tune != nil {
		tune(&o)
	}
	_, err := runWorker(t.Context(), t, o)
	require.NoError(t, err)
}

func rest(t *testing.T, m *client.Memory, dir string, tune func(*Options)) {
	t.Helper()
	o := countOptions(m, 1, dir)
	if tune != nil {
		tune(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that does not end is no success
	defer cancel()
	_, err := runWorker(ctx, t, o)
	require.NoError(t, err)
	requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
	requireState(t, m, dir)
}

// TestMatrix_PowerLoss: a file that was open in another boot of the machine is put aside, and the
// state comes from the changelog.
func TestMatrix_PowerLoss(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	half(t, m, dir, func(o *Options) { o.State.BootID = "first" })
	path := filepath.Join(dir, "app", "counts-0.db")
	require.NoError(t, os.WriteFile(path+".boot", []byte("first open\n"), 0o600))
	rest(t, m, dir, func(o *Options) { o.State.BootID = "second" })
	require.FileExists(t, path+".torn")
}

// TestMatrix_TornFile: a file that is no bbolt file any more, is cut, or has a page or a bit that
// is wrong is put aside, at the start or when it is found; the state comes from the changelog.
func TestMatrix_TornFile(t *testing.T) {
	const page = 4096
	zero := func(from, to int) func([]byte) []byte {
		return func(file []byte) []byte {
			clear(file[from:min(to, len(file))])
			return file
		}
	}
	harms := map[string]func([]byte) []byte{
		"no bbolt file": zero(0, 2*page),
		"cut":           func(file []byte) []byte { return file[:len(file)/2] },
		"a flipped bit in a value": func(file []byte) []byte { // of each copy of the row
			for at := range len(file) - 16 {
				if bytes.HasPrefix(file[at:], []byte("rkey-4")) {
					file[at+13] ^= 4
				}
			}
			return file
		},
	}
	for n := 2; n < 6; n++ {
		harms[fmt.Sprint("zeroed page ", n)] = zero(n*page, (n+1)*page)
	}
	aside := 0
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			m, dir := filled(t, 1, 60), t.TempDir()
			half(t, m, dir, nil)
			path := filepath.Join(dir, "app", "counts-0.db")
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, harm(data), 0o600))
			rest(t, m, dir, nil)
			_, err = os.Stat(path + ".torn")
			if err == nil {
				aside++
			}
			require.True(t, err == nil || strings.HasPrefix(name, "zeroed"), "it goes on with the file")
		})
	}
	require.Greater(t, aside, 4) // some pages are free
}

// TestMatrix_StoredOffsetBeyondTheEnd: the changelog lost its end (its broker lost writes), so the
// file is ahead of it and not trusted.
func TestMatrix_StoredOffsetBeyondTheEnd(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	half(t, m, dir, nil)
	infos, err := m.Admin().Topics(t.Context(), "app-counts-changelog")
	require.NoError(t, err)
	path := filepath.Join(dir, "app", "counts-0.db")
	db, err := state.Open(state.Options{Path: path, Identity: state.Identity{Task: "app.counts.0",
		Fingerprint: "f", Changelog: infos["app-counts-changelog"].ID}})
	require.NoError(t, err)
	require.NoError(t, db.Store("counts").Put([]byte("key-1"), make([]byte, 8)))
	require.NoError(t, db.Commit(time.Now(), state.Meta{Next: 1 << 40, Commit: db.Meta().Commit}))
	require.NoError(t, db.Close())
	rest(t, m, dir, nil)
}

// TestMatrix_StoredOffsetBeforeTheStart: the changelog lost records that the file does not have, of
// which some may have been deletions, so the file is not trusted.
func TestMatrix_StoredOffsetBeforeTheStart(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	half(t, m, dir, nil)
	rest(t, m, t.TempDir(), nil) // another worker, with another file
	log := client.TopicPartition{Topic: "app-counts-changelog"}
	records := m.Records(log)
	m.Trim(log, records[len(records)-2].Offset)
	_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "app", "counts-0.db.torn"))
}

// TestMatrix_SecondWorkerWaits: a worker that finds its state files in use waits for their owner.
func TestMatrix_SecondWorkerWaits(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	half(t, m, dir, nil)
	infos, err := m.Admin().Topics(t.Context(), "app-counts-changelog")
	require.NoError(t, err)
	db, err := state.Open(state.Options{Path: filepath.Join(dir, "app", "counts-0.db"),
		Identity: state.Identity{Task: "app.counts.0", Fingerprint: "f",
			Changelog: infos["app-counts-changelog"].ID}})
	require.NoError(t, err)
	time.AfterFunc(150*time.Millisecond, func() { _ = db.Close() })
	rest(t, m, dir, nil)
}

// TestMatrix_TwoOwners: two workers, each with files of its own, run the same task at once, and
// take it from each other. Whoever commits, commits once.
func TestMatrix_TwoOwners(t *testing.T) {
	m := filled(t, 1, 400)
	m.SetMaxPoll(5)
	var both sync.WaitGroup
	for range 2 {
		dir := t.TempDir()
		both.Go(func() {
			w, err := NewWorker(countOptions(m, 1, dir))
			if err == nil {
				err = w.Run(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
}

// TestMatrix_InputMadeAgain: an input topic that was deleted and made again is refused; the error
// has the task, the place and the way on.
func TestMatrix_InputMadeAgain(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	half(t, m, dir, nil)
	m.Delete("in")
	require.NoError(t, m.Admin().CreateTopics(t.Context(), client.TopicSpec{Name: "in",
		Partitions: 1}))
	for i := range 40 {
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in"},
			record.Record{Key: fmt.Append(nil, i)}))
	}
	before := len(m.Records(client.TopicPartition{Topic: "app-counts-changelog"}))
	_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.ErrorIs(t, err, ErrTopics)
	for _, part := range []string{"task app.counts.0", "topic in was deleted and made again",
		"in-0 offset 25"} {
		require.ErrorContains(t, err, part)
	}
	require.Len(t, m.Records(client.TopicPartition{Topic: "app-counts-changelog"}), before)
}

// TestMatrix_OutputRefused: an output topic takes nothing. The error names it; when it does again,
// nothing is lost.
func TestMatrix_OutputRefused(t *testing.T) {
	m, dir := filled(t, 1, 60), t.TempDir()
	m.SetFaults(func(op client.Op) error {
		if op.Kind == "append" && op.Topic == "out" && op.Partition == 1 {
			return errors.New("not authorized")
		}
		return nil
	}, nil)
	_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.ErrorIs(t, err, client.ErrProduce)
	require.ErrorContains(t, err, "task app.counts.0")
	require.ErrorContains(t, err, "out-1")
	require.ErrorContains(t, err, "not authorized")
	m.SetFaults(nil, nil)
	rest(t, m, dir, nil)
}
