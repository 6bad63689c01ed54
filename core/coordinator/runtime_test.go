package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a log in memory that can fail and be held up.
type memLog struct {
	mu      sync.Mutex
	epoch   int32
	entries []coordinator.Entry
	batches int
	shape   []string      // of each batch: records, and whose
	fail    error         // what the next append returns
	written bool          // the failing append writes all the same
	gate    chan struct{} // append and replay wait for it, if it is not nil
	replay  error         // what the next replay returns
}

func (l *memLog) wait(ctx context.Context) error {
	l.mu.Lock()
	gate := l.gate
	l.mu.Unlock()
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *memLog) Append(ctx context.Context, _ int32, b coordinator.Batch) (int64, error) {
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.fail
	l.fail = nil
	if err == nil || l.written {
		l.batches++
		l.add(b)
	}
	return int64(len(l.entries)) - 1, err
}

// add appends a batch. Caller holds mu.
func (l *memLog) add(b coordinator.Batch) {
	shape := fmt.Sprint(len(b.Records), " records")
	if b.Producer != nil {
		shape += fmt.Sprint(" of ", *b.Producer)
	}
	if b.Marker != nil {
		shape = fmt.Sprint("marker of ", b.Marker.ProducerID)
	}
	l.shape = append(l.shape, shape)
	if m := b.Marker; m != nil {
		l.entries = append(l.entries, coordinator.Entry{
			Record:   record.Record{Offset: int64(len(l.entries))},
			Producer: &coordinator.Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch},
			Marker:   true, Commit: m.Type == record.ControlCommit,
		})
	}
	for i := range b.Records {
		rec := b.Records[i].Clone()
		rec.Offset = int64(len(l.entries))
		l.entries = append(l.entries, coordinator.Entry{Record: rec, Producer: b.Producer})
	}
}

func (l *memLog) Replay(ctx context.Context, _ int32, fn func(coordinator.Entry) error) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	entries, err := l.entries, l.replay
	l.replay = nil
	l.mu.Unlock()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) LeaderEpoch(int32) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

func (l *memLog) set(fn func(*memLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(l)
}

// counter is a machine that adds numbers. Inputs: int adds and answers the sum when it is durable;
// "sum" answers the sum; "wait" is answered by the timer a second later; "exclusive" adds one but
// not while anything is in flight.
type counter struct {
	sum     int
	flying  bool
	waiting []coordinator.Ticket
	due     time.Time
}

func (c *counter) Handle(now time.Time, t coordinator.Ticket, in any) coordinator.Step {
	switch in {
	case "sum":
		return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: c.sum}}}
	case "wait":
		c.waiting = append(c.waiting, t)
		c.due = now.Add(time.Second)
		return coordinator.Step{}
	case "exclusive":
		if c.flying {
			return coordinator.Step{Again: true}
		}
		return c.add(t, 1, c.sum+1)
	}
	n := in.(int)
	return c.add(t, n, n)
}

func (c *counter) add(t coordinator.Ticket, n, out int) coordinator.Step {
	c.flying = true
	return coordinator.Step{
		Records: []record.Record{{Value: []byte(strconv.Itoa(n))}},
		Outputs: []coordinator.Output{{Ticket: t, Value: out}},
		Fail: func(_ time.Time, code coordinator.ErrorCode) []coordinator.Output {
			c.flying = false
			return []coordinator.Output{{Ticket: t, Value: code}}
		},
	}
}

func (c *counter) Replay(rec record.Record) error {
	c.flying = false
	n, err := strconv.Atoi(string(rec.Value))
	c.sum += n
	return err
}

func (c *counter) Loaded(time.Time) {}

func (c *counter) NextDeadline() (time.Time, bool) { return c.due, len(c.waiting) > 0 }

func (c *counter) Tick(time.Time) coordinator.Step {
	var step coordinator.Step
	for _, t := range c.waiting {
		step.Outputs = append(step.Outputs, coordinator.Output{Ticket: t, Value: "rung"})
	}
	c.waiting = nil
	return step
}

func open(log *memLog) *coordinator.Runtime {
	rt := coordinator.New(coordinator.Options{
		Log:        log,
		NewMachine: func(int32) coordinator.Machine { return &counter{} },
	})
	rt.Lead(0, 1)
	return rt
}

// ask submits and returns where the answer will be: "value" or the code's name.
func ask(rt *coordinator.Runtime, in any) chan string {
	ch := make(chan string, 2) // a second answer would be a fault, and is seen
	rt.Submit(0, in, func(out any, code coordinator.ErrorCode) {
		if code != coordinator.CodeNone {
			ch <- code.String()
			return
		}
		ch <- fmt.Sprint(out)
	})
	return ch
}

func TestRuntimeAnswersWhenDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := open(log)
		synctest.Wait()
		log.set(func(l *memLog) { l.gate = make(chan struct{}) })
		added := ask(rt, 5)
		synctest.Wait()
		require.Empty(t, added, "answered before it was durable")
		close(log.gate)
		log.set(func(l *memLog) { l.gate = nil })
		require.Equal(t, "5", <-added)
		require.Equal(t, "5", <-ask(rt, "sum"))
		rt.Close()
		require.Equal(t, "NOT_COORDINATOR", <-ask(rt, "sum"))
	})
}

func TestRuntimeAppendsManyInputsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := open(log)
		synctest.Wait()
		gate := make(chan struct{})
		log.set(func(l *memLog) { l.gate = gate })
		first := ask(rt, 1)
		synctest.Wait()
		var rest []chan string
		for range 100 {
			rest = append(rest, ask(rt, 1))
		}
		log.set(func(l *memLog) { l.gate = nil })
		close(gate)
		require.Equal(t, "1", <-first)
		for _, ch := range rest {
			require.Equal(t, "1", <-ch)
		}
		require.Equal(t, "101", <-ask(rt, "sum"))
		rt.Close()
		require.Equal(t, 2, log.batches, "100 inputs that wait are one append")
	})
}

func TestRuntimeFlushesBeforeWhatConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := open(log)
		synctest.Wait()
		gate := make(chan struct{})
		log.set(func(l *memLog) { l.gate = gate })
		ask(rt, 1)
		synctest.Wait()
		second, exclusive := ask(rt, 1), ask(rt, "exclusive")
		log.set(func(l *memLog) { l.gate = nil })
		close(gate)
		require.Equal(t, "1", <-second)
		require.Equal(t, "3", <-exclusive, "sees what was in flight before it")
		rt.Close()
		require.Equal(t, 3, log.batches)
	})
}

func TestRuntimeReportsFailedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := open(log)
		defer rt.Close()
		synctest.Wait()
		for err, want := range map[error]string{
			errors.New("disk is full"):                          "COORDINATOR_NOT_AVAILABLE",
			fmt.Errorf("gone: %w", coordinator.ErrNotLeader):    "NOT_COORDINATOR",
			fmt.Errorf("too much: %w", coordinator.ErrTooLarge): "INVALID_COMMIT_OFFSET_SIZE",
		} {
			log.set(func(l *memLog) { l.fail = err })
			require.Equal(t, want, <-ask(rt, 5))
			require.Equal(t, "0", <-ask(rt, "sum"))
		}
	})
}

// An append whose outcome is not known may be in the log: memory is made from the log again.
func TestRuntimeLoadsAgainAfterUnknownOutcome(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprint("written=", written), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &memLog{epoch: 1}
				rt := open(log)
				defer rt.Close()
				synctest.Wait()
				require.Equal(t, "2", <-ask(rt, 2))
				waiting := ask(rt, "wait")
				log.set(func(l *memLog) {
					l.fail, l.written = coordinator.ErrUnknownOutcome, written
				})
				require.Equal(t, "NOT_COORDINATOR", <-ask(rt, 5))
				require.Equal(t, "NOT_COORDINATOR", <-waiting)
				synctest.Wait()
				want := "2"
				if written {
					want = "7"
				}
				require.Equal(t, want, <-ask(rt, "sum"))
			})
		})
	}
}

func TestRuntimeTimesOutAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := open(log)
		defer rt.Close()
		synctest.Wait()
		gate := make(chan struct{})
		log.set(func(l *memLog) { l.gate = gate })
		began := time.Now()
		require.Equal(t, "NOT_COORDINATOR", <-ask(rt, 5))
		require.Equal(t, 5*time.Second, time.Since(began))
		log.set(func(l *memLog) { l.gate = nil })
		close(gate)
		synctest.Wait()
		require.Equal(t, "0", <-ask(rt, "sum"))
	})
}

func TestRuntimeAnswersOnlyWhileItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		log := &memLog{epoch: 1, gate: gate}
		log.entries = []coordinator.Entry{{Record: record.Record{Value: []byte("40")}}}
		rt := open(log)
		synctest.Wait()
		require.Equal(t, "COORDINATOR_LOAD_IN_PROGRESS", <-ask(rt, "sum"))
		require.False(t, rt.Ready(0))
		log.set(func(l *memLog) { l.gate = nil })
		close(gate)
		synctest.Wait()
		require.True(t, rt.Ready(0))
		require.Equal(t, "40", <-ask(rt, "sum"))

		// A lower or equal epoch changes nothing, a higher one loads again.
		waiting := ask(rt, "wait")
		rt.Lead(0, 1)
		rt.Lead(0, 0)
		synctest.Wait()
		require.Empty(t, waiting)
		log.set(func(l *memLog) { l.epoch = 2 })
		require.Equal(t, "NOT_COORDINATOR", <-ask(rt, 1), "the log has a new epoch")
		rt.Lead(0, 2)
		require.Equal(t, "NOT_COORDINATOR", <-waiting)
		synctest.Wait()
		require.Equal(t, "2", <-ask(rt, 2))
		require.Equal(t, map[int32]int32{0: 2}, rt.Leading())

		rt.Resign(0)
		require.Equal(t, "NOT_COORDINATOR", <-ask(rt, "sum"))
		rt.Lead(0, 3)
		log.set(func(l *memLog) { l.epoch = 3 })
		synctest.Wait()
		require.Equal(t, "42", <-ask(rt, "sum"))
		rt.Close()
		rt.Close()
	})
}

func TestRuntimeRetriesLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1, replay: errors.New("disk trouble")}
		rt := open(log)
		defer rt.Close()
		synctest.Wait()
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", <-ask(rt, "sum"))
		<-time.After(time.Second)
		require.Equal(t, "0", <-ask(rt, "sum"))
	})
}

func TestRuntimeRunsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := open(&memLog{epoch: 1})
		defer rt.Close()
		synctest.Wait()
		began := time.Now()
		require.Equal(t, "rung", <-ask(rt, "wait"))
		require.Equal(t, time.Second, time.Since(began))
	})
}

// A single step that is larger than a batch goes out in parts.
func TestRuntimeSplitsLargeSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := coordinator.New(coordinator.Options{
			Log:        log,
			NewMachine: func(int32) coordinator.Machine { return &bulk{} },
		})
		defer rt.Close()
		rt.Lead(0, 1)
		synctest.Wait()
		require.Equal(t, "10", <-ask(rt, 10))
		require.Equal(t, 5, log.batches, "10 records of 200 kB, two to a batch")
	})
}

// bulk answers n with n records of 200 kB.
type bulk struct{ counter }

func (b *bulk) Handle(_ time.Time, t coordinator.Ticket, in any) coordinator.Step {
	step := coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: in}}}
	for range in.(int) {
		step.Records = append(step.Records, record.Record{Value: make([]byte, 200<<10)})
	}
	return step
}

func (b *bulk) Replay(record.Record) error { return nil }

func BenchmarkSubmit(b *testing.B) {
	log := &discardLog{}
	rt := coordinator.New(coordinator.Options{
		Log:        log,
		NewMachine: func(int32) coordinator.Machine { return &counter{} },
	})
	defer rt.Close()
	rt.Lead(0, 0)
	for !rt.Ready(0) {
		<-time.After(time.Millisecond)
	}
	const window = 256
	free := make(chan struct{}, window)
	b.ReportAllocs()
	for b.Loop() {
		free <- struct{}{}
		rt.Submit(0, 1, func(any, coordinator.ErrorCode) { <-free })
	}
	for range window {
		free <- struct{}{}
	}
}

type discardLog struct{}

func (discardLog) Append(context.Context, int32, coordinator.Batch) (int64, error) { return 0, nil }

func (discardLog) Replay(context.Context, int32, func(coordinator.Entry) error) error { return nil }

func (discardLog) LeaderEpoch(int32) int32 { return 0 }
