package group

import (
	"iter"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// fakeTopics are topics by name.
type fakeTopics struct {
	version int64
	topics  map[string]Topic
}

func (f *fakeTopics) Version() int64                   { return f.version }
func (f *fakeTopics) Names() iter.Seq[string]          { return maps.Keys(f.topics) }
func (f *fakeTopics) ByName(name string) (Topic, bool) { t, ok := f.topics[name]; return t, ok }
func (f *fakeTopics) ByID(id uuid.UUID) (Topic, bool) {
	for _, t := range f.topics {
		if t.ID == id {
			return t, true
		}
	}
	return Topic{}, false
}

// consumerWorld is a machine whose records become durable at once, or are refused.
type consumerWorld struct {
	t interface {
		require.TestingT
		Helper()
	}
	opts   Options
	m      *machine
	now    time.Time
	topics *fakeTopics
	log    []record.Record
	fail   ErrorCode // refuses the next records
	ticket coordinator.Ticket
}

func newConsumerWorld(t interface {
	require.TestingT
	Helper()
}, s Settings, topics ...string,
) *consumerWorld {
	w := &consumerWorld{t: t, now: start, topics: &fakeTopics{topics: make(map[string]Topic)}}
	for _, name := range topics {
		w.setTopic(name, 3)
	}
	w.opts = Options{Settings: s, Topics: func() Topics { return w.topics }}.withDefaults()
	w.reload()
	return w
}

// setTopic makes a topic, or gives it partitions.
func (w *consumerWorld) setTopic(name string, partitions int32) {
	next := &fakeTopics{version: w.topics.version + 1, topics: maps.Clone(w.topics.topics)}
	id := uuid.NewSHA1(uuid.Nil, []byte(name))
	next.topics[name] = Topic{Name: name, ID: id, Partitions: partitions}
	w.topics = next
}

// reload makes the machine again from its log.
func (w *consumerWorld) reload() {
	w.m = newMachine(&w.opts, func() *Settings { return &w.opts.Settings })
	for i := range w.log {
		require.NoError(w.t, w.m.Replay(w.log[i]))
	}
	w.m.Loaded(w.now)
}

func (w *consumerWorld) apply(step coordinator.Step) map[coordinator.Ticket]any {
	w.t.Helper()
	require.False(w.t, step.Again)
	outputs := step.Outputs
	switch {
	case len(step.Records) > 0 && w.fail != 0:
		outputs = step.Fail(w.now, w.fail)
		w.fail = 0
	default:
		for _, r := range step.Records {
			r.Offset = int64(len(w.log))
			w.log = append(w.log, r)
			require.NoError(w.t, w.m.Replay(r))
		}
	}
	answers := make(map[coordinator.Ticket]any)
	for _, o := range outputs {
		answers[o.Ticket] = o.Value
	}
	return answers
}

// do hands in an input and returns its answer, nil if it waits.
func (w *consumerWorld) do(in any) any {
	w.t.Helper()
	w.ticket++
	return w.apply(w.m.Handle(w.now, w.ticket, in))[w.ticket]
}

// pass lets time pass.
func (w *consumerWorld) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		at, ok := w.m.NextDeadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.now) {
			w.now = at
		}
		w.apply(w.m.Tick(w.now))
	}
	w.now = end
}

// beat is a heartbeat of a member that has not changed.
func (w *consumerWorld) beat(id string, epoch int32, change ...func(*ConsumerHeartbeatRequest),
) ConsumerHeartbeatResponse {
	w.t.Helper()
	req := &ConsumerHeartbeatRequest{
		GroupID: "g", MemberID: id, MemberEpoch: epoch, RebalanceTimeoutMS: -1, ClientID: "c",
		ClientHost: "/h", RequireMemberID: true,
	}
	for _, fn := range change {
		fn(req)
	}
	return w.do(req).(ConsumerHeartbeatResponse)
}

// joins makes a heartbeat one that joins.
func joins(topics ...string) func(*ConsumerHeartbeatRequest) {
	return func(r *ConsumerHeartbeatRequest) {
		r.RebalanceTimeoutMS, r.Topics, r.Owned = 30000, topics, []ConsumerPartitions{}
	}
}

func matches(expression string) func(*ConsumerHeartbeatRequest) {
	return func(r *ConsumerHeartbeatRequest) { joins()(r); r.Topics, r.Regex = nil, &expression }
}

func static(instance string) func(*ConsumerHeartbeatRequest) {
	return func(r *ConsumerHeartbeatRequest) { r.InstanceID = &instance }
}

func owns(list []ConsumerPartitions) func(*ConsumerHeartbeatRequest) {
	return func(r *ConsumerHeartbeatRequest) { r.Owned = append([]ConsumerPartitions{}, list...) }
}

func (w *consumerWorld) describe() DescribeConsumerResponse {
	return w.do(describeConsumerInput{"g"}).(DescribeConsumerResponse)
}

func (w *consumerWorld) memberIDs() (ids []string) {
	for _, m := range w.describe().Members {
		ids = append(ids, m.MemberID)
	}
	return ids
}

// classicGroup makes a classic group of one consumer and returns its id.
func (w *consumerWorld) classicGroup(assignment []byte) string {
	w.opts.InitialRebalanceDelay = -1
	w.opts.Settings = w.opts.Settings.withDefaults()
	join := &JoinRequest{
		GroupID: "g", NewID: "1", ClientID: "c", ClientHost: "/h", ProtocolType: "consumer",
		Protocols: []Protocol{{Name: "range", Metadata: []byte("\x00\x01\x00\x00\x00\x01\x00\x01t" +
			"\xff\xff\xff\xff\x00\x00\x00\x00")}},
		SessionTimeoutMS: 10000, RebalanceTimeoutMS: 30000,
	}
	w.ticket++
	joining := w.ticket
	w.apply(w.m.Handle(w.now, joining, join))
	at, _ := w.m.NextDeadline()
	w.now = at
	joined := w.apply(w.m.Tick(w.now))[joining].(JoinResponse)
	require.EqualValues(w.t, 1, joined.Generation)
	synced := w.do(&SyncRequest{
		GroupID: "g", MemberID: joined.MemberID, Generation: 1,
		Assignments: []Assignment{{MemberID: joined.MemberID, Assignment: assignment}},
	}).(SyncResponse)
	require.EqualValues(w.t, 0, synced.Code)
	return joined.MemberID
}

// wholeTopic assigns the three partitions of t to a classic consumer.
const wholeTopic = "\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x03\x00\x00\x00\x00" +
	"\x00\x00\x00\x01\x00\x00\x00\x02"
