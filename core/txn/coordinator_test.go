package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// memLog is a log in memory.
type memLog struct {
	mu      sync.Mutex
	epoch   int32
	records []record.Record
	fail    error // what the next append returns
}

func (l *memLog) Append(_ context.Context, _ int32, b coordinator.Batch) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fail; err != nil {
		l.fail = nil
		return -1, err
	}
	for i := range b.Records {
		l.records = append(l.records, b.Records[i].Clone())
	}
	return int64(len(l.records)) - 1, nil
}

func (l *memLog) Replay(_ context.Context, _ int32, fn func(coordinator.Entry) error) error {
	l.mu.Lock()
	recs := slices.Clone(l.records)
	l.mu.Unlock()
	for _, rec := range recs {
		if err := fn(coordinator.Entry{Record: rec}); err != nil {
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

// states are those of the log's records, in order.
func (l *memLog) states(t *testing.T) []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []State
	for _, rec := range l.records {
		md, err := ReadValue(rec.Value)
		require.NoError(t, err)
		all = append(all, md.State)
	}
	return all
}

// sink takes markers and answers as it is told.
type sink struct {
	mu      sync.Mutex
	written map[string][]record.ControlOptions
	tries   int
	refuse  map[string]ErrorCode // until it is changed
	gate    chan struct{}        // WriteMarker waits for it, if it is not nil
}

func (s *sink) WriteMarker(ctx context.Context, topic string, partition int32,
	m record.ControlOptions, _ int16,
) ErrorCode {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return coordinator.CodeCoordinatorNotAvailable
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	name := fmt.Sprintf("%s/%d", topic, partition)
	if code := s.refuse[name]; code != coordinator.CodeNone {
		return code
	}
	s.written[name] = append(s.written[name], m)
	return coordinator.CodeNone
}

func (s *sink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// attempts counts the calls of WriteMarker that got past the gate.
func (s *sink) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// markers returns a copy of what was written, by partition: "a/0".
func (s *sink) markers() map[string][]record.ControlOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.written)
}

// rig is a coordinator that leads one shard.
type rig struct {
	*Coordinator
	t    *testing.T
	log  *memLog
	sink *sink
}

func newRig(t *testing.T, log *memLog) *rig {
	r := &rig{t: t, log: log, sink: &sink{
		written: make(map[string][]record.ControlOptions), refuse: make(map[string]ErrorCode),
	}}
	c, err := New(Options{
		Log: log, Markers: r.sink, Partitions: 1,
		AllocateProducerIDs: func(context.Context) (int64, int32, error) { return 1000, 10, nil },
	})
	require.NoError(t, err)
	r.Coordinator = c
	c.UpdateLeadership(1, map[int32]int32{0: log.epoch})
	synctest.Wait()
	return r
}

// open begins a transaction.
func (r *rig) open(parts ...TopicPartition) Producer {
	init := r.InitProducerID(r.t.Context(), InitRequest{TransactionalID: "t", TimeoutMS: 60000})
	require.Equal(r.t, coordinator.CodeNone, init.Code)
	resp := r.AddPartitions(r.t.Context(), AddRequest{
		TransactionalID: "t", Producer: init.Producer, Partitions: parts,
	})
	require.Equal(r.t, coordinator.CodeNone, resp.Code)
	return init.Producer
}

func (r *rig) commit(p Producer) ErrorCode {
	return r.EndTxn(r.t.Context(), EndRequest{
		TransactionalID: "t", Producer: p, Commit: true,
	}).Code
}

// Rule 18: the answer comes once PREPARE is durable, the markers after that, COMPLETE last.
func TestRule18_AnswersBeforeMarkersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		p := r.open(TopicPartition{"a", 0}, TopicPartition{"b", 1})
		gate := make(chan struct{})
		r.sink.set(func() { r.sink.gate = gate })
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		require.Equal(t, []State{Empty, Ongoing, PrepareCommit}, r.log.states(t))
		require.Equal(t, coordinator.CodeConcurrentTransactions, r.commit(p))
		synctest.Wait()
		close(gate)
		synctest.Wait()
		require.Equal(t, []State{Empty, Ongoing, PrepareCommit, CompleteCommit}, r.log.states(t))
		for _, name := range []string{"a/0", "b/1"} {
			require.Equal(t, []record.ControlOptions{{
				Type: record.ControlCommit, ProducerID: 1000, CoordinatorEpoch: 3,
				Timestamp: time.Now().UnixMilli(),
			}}, r.sink.markers()[name])
		}
		require.Equal(t, coordinator.CodeNone, r.commit(p), "repeated")
	})
}

// Rule 18: a marker is tried until it is written, and meanwhile nobody waits for it.
func TestRule18_RetriesMarkersForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		p := r.open(TopicPartition{"a", 0}, TopicPartition{"b", 0}, TopicPartition{"c", 0})
		r.sink.set(func() {
			r.sink.refuse["a/0"] = coordinator.CodeCoordinatorNotAvailable
			r.sink.refuse["b/0"] = coordinator.CodeTransactionCoordinatorFenced
			r.sink.refuse["c/0"] = coordinator.CodeInvalidProducerEpoch // out of date: no more tries
		})
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		<-time.After(time.Hour)
		require.Equal(t, PrepareCommit, r.Describe(t.Context(), "t").State)
		tries := r.sink.attempts()
		require.Greater(t, tries, 1000)
		require.Less(t, tries, 3000, "every 5 s and partition")
		r.sink.set(func() { clear(r.sink.refuse) })
		<-time.After(lastMarkerRetry)
		synctest.Wait()
		require.Equal(t, CompleteCommit, r.Describe(t.Context(), "t").State)
		require.Len(t, r.sink.markers()["a/0"], 1)
		require.Len(t, r.sink.markers()["b/0"], 1)
	})
}

// redpanda#17827: PREPARE survives the coordinator, at once and in a later leader epoch.
func TestDecidedTransactionIsCarriedOutByTheNextCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 3}
		r := newRig(t, log)
		p := r.open(TopicPartition{"a", 0})
		r.sink.set(func() { r.sink.refuse["a/0"] = coordinator.CodeCoordinatorNotAvailable })
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		r.Close()
		require.Empty(t, r.sink.markers())

		log.epoch = 4
		r = newRig(t, log)
		defer r.Close()
		synctest.Wait()
		require.Equal(t, CompleteCommit, r.Describe(t.Context(), "t").State)
		require.EqualValues(t, 4, r.sink.markers()["a/0"][0].CoordinatorEpoch)
		require.Equal(t, coordinator.CodeNone, r.commit(p), "repeated at the next coordinator")
	})
}

// COMPLETE is written again when its append fails.
func TestCompleteIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		p := r.open(TopicPartition{"a", 0})
		gate := make(chan struct{})
		r.sink.set(func() { r.sink.gate = gate })
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		r.log.mu.Lock()
		r.log.fail = errors.New("disk full")
		r.log.mu.Unlock()
		close(gate)
		synctest.Wait()
		require.Equal(t, PrepareCommit, r.Describe(t.Context(), "t").State)
		<-time.After(time.Second)
		require.Equal(t, CompleteCommit, r.Describe(t.Context(), "t").State)
		require.Len(t, r.sink.markers()["a/0"], 1)
	})
}

// Rule 13: what is wrong whoever leads is said by whoever is asked.
func TestRule13_RefusesEmptyIDsAndLongTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		for _, leading := range []map[int32]int32{{0: 3}, nil} {
			r.UpdateLeadership(1, leading)
			ctx := t.Context()
			for id, want := range map[string]ErrorCode{
				"": coordinator.CodeInvalidRequest, "t": coordinator.CodeInvalidTransactionTimeout,
			} {
				for _, timeout := range []int32{0, -1, 900_001} {
					got := r.InitProducerID(ctx, InitRequest{TransactionalID: id, TimeoutMS: timeout})
					require.Equal(t, InitResponse{Code: want, Producer: noProducer}, got)
				}
			}
			require.Equal(t, coordinator.CodeInvalidRequest, r.AddPartitions(ctx, AddRequest{}).Code)
			require.Equal(t, coordinator.CodeInvalidRequest, r.EndTxn(ctx, EndRequest{}).Code)
			require.Equal(t, coordinator.CodeInvalidRequest, r.Describe(ctx, "").Code)
		}
	})
}

// Rule 22: nobody hangs at a coordinator that does not lead, or is still loading.
func TestRule22_AnswersQuicklyWithoutLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		p := r.open(TopicPartition{"a", 0})
		r.sink.set(func() { r.sink.refuse["a/0"] = coordinator.CodeCoordinatorNotAvailable })
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		r.UpdateLeadership(1, nil)
		began := time.Now()
		require.Equal(t, coordinator.CodeNotCoordinator, r.commit(p))
		require.Equal(t, coordinator.CodeNotCoordinator, r.InitProducerID(t.Context(),
			InitRequest{TransactionalID: "t", TimeoutMS: 1}).Code)
		require.Equal(t, coordinator.CodeNotCoordinator,
			r.AddPartitions(t.Context(), AddRequest{TransactionalID: "t"}).Code)
		require.Equal(t, coordinator.CodeNotCoordinator, r.Describe(t.Context(), "t").Code)
		require.Equal(t, ListResponse{}, r.List(t.Context(), ListRequest{LongerThan: -1}))
		require.Equal(t, began, time.Now())
		tries := r.sink.attempts()
		<-time.After(time.Minute)
		require.LessOrEqual(t, r.sink.attempts(), tries+1, "markers are the next leader's")
	})
}

// Many partitions at once, more than there are writers.
func TestMarkersOfManyPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &memLog{epoch: 3})
		defer r.Close()
		var parts []TopicPartition
		for n := range int32(3 * maxMarkerWriters) {
			parts = append(parts, TopicPartition{"a", n})
		}
		p := r.open(parts...)
		gate := make(chan struct{})
		r.sink.set(func() { r.sink.gate = gate })
		require.Equal(t, coordinator.CodeNone, r.commit(p))
		synctest.Wait()
		require.Equal(t, maxMarkerWriters, r.markers.mu.running)
		close(gate)
		synctest.Wait()
		require.Equal(t, CompleteCommit, r.Describe(t.Context(), "t").State)
		require.Len(t, r.sink.markers(), len(parts))
		require.Zero(t, r.markers.mu.running)
	})
}
