package controller

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/stretchr/testify/require"
)

// commit decides calls on the machine's state and applies the entry at an index.
func commit(t testing.TB, m *machine, index int64, calls ...*call) {
	t.Helper()
	s, _ := m.current()
	d, rest := decide(s, calls)
	require.Empty(t, rest)
	require.Empty(t, d.failed)
	applyEntry(t, m, index, d.entry)
}

func applyEntry(t testing.TB, m *machine, index int64, e entry) {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	require.NoError(t, m.Apply(uint64(index), data))
}

func newTestMachine() *machine { return newMachine(1, nil, nodeID) }

func newCall(id byte, c command) *call { return &call{request: uuid.UUID{id}, command: c} }

func oneTopic(name string, id byte) *createTopics {
	return &createTopics{ids: []uuid.UUID{{id}}, topics: []CreateTopic{
		{Name: name, Partitions: 1, ReplicationFactor: 1}}}
}

func brokerOne() *registerBroker {
	return &registerBroker{Registration{Broker: metadata.Broker{ID: 1, Host: "h", Port: 9092}}}
}

// A command whose outcome was not known and that is sent again is answered, not done again.
func TestRepeatedRequestIsAnsweredFromItsReply(t *testing.T) {
	m := newTestMachine()
	commit(t, m, 2, newCall(1, brokerOne()))
	ids := newCall(2, &allocateProducerIDs{})
	commit(t, m, 3, ids)
	before, _ := m.current()
	first, ok := before.reply(ids.request)
	require.True(t, ok)

	d, _ := decide(before, []*call{ids, newCall(3, &allocateProducerIDs{}), newCall(3, nil)})
	require.Len(t, d.calls, 3)
	require.Len(t, d.entry.Commands, 1) // the new one, once
	applyEntry(t, m, 4, d.entry)
	after, _ := m.current()
	again, _ := after.reply(ids.request)
	require.JSONEq(t, string(first), string(again))
	require.Equal(t, int64(2000), after.image.NextProducerID())
}

// Two leaders may decide on the same state; what is committed second must change nothing.
func TestEntryDecidedOnAnOlderStateIsSkipped(t *testing.T) {
	m := newTestMachine()
	commit(t, m, 2, newCall(1, brokerOne()))
	s, _ := m.current()
	a, _ := decide(s, []*call{newCall(2, oneTopic("a", 1))})
	b, _ := decide(s, []*call{newCall(3, oneTopic("a", 2))})
	applyEntry(t, m, 3, a.entry)
	applied, _ := m.current()
	applyEntry(t, m, 4, b.entry)
	after, _ := m.current()
	require.Equal(t, applied, after)
	_, done := after.reply(uuid.UUID{3})
	require.False(t, done) // so its proposer decides it again
}

func TestCommandsOfOneEntrySeeEachOther(t *testing.T) {
	m := newTestMachine()
	commit(t, m, 2, newCall(1, brokerOne()), newCall(2, oneTopic("a", 1)),
		newCall(3, oneTopic("a", 2)), newCall(4, &deleteTopics{[]TopicRef{{Name: "a"}}}),
		newCall(5, oneTopic("a", 3)))
	s, _ := m.current()
	topic, ok := s.image.Topic("a")
	require.True(t, ok)
	require.Equal(t, uuid.UUID{3}, topic.ID)
	var replies []topicReply
	reply, _ := s.reply(uuid.UUID{3})
	require.NoError(t, json.Unmarshal(reply, &replies))
	require.ErrorIs(t, replies[0].Error.err(), ErrTopicExists)
	b, _ := s.image.Broker(1)
	require.Equal(t, int64(2), b.Epoch) // the index of its registration
}

func TestEntriesAreBounded(t *testing.T) {
	m := newTestMachine()
	commit(t, m, 2, newCall(1, brokerOne()))
	var calls []*call
	for i := range byte(10) {
		c := &createTopics{}
		for j := range 100 {
			c.ids = append(c.ids, uuid.UUID{i, byte(j), 1})
			c.topics = append(c.topics, CreateTopic{Name: fmt.Sprintf("t-%d-%d", i, j),
				Partitions: 90, ReplicationFactor: 1})
		}
		calls = append(calls, newCall(10+i, c))
	}
	s, _ := m.current()
	d, rest := decide(s, calls)
	require.NotEmpty(t, rest)
	require.NotEmpty(t, d.entry.Commands)
	require.Len(t, calls, len(d.calls)+len(rest))
}

func TestRepliesAreBounded(t *testing.T) {
	m := newTestMachine()
	for i := range int64(maxReplies + 500) {
		c := &call{command: &allocateProducerIDs{}}
		c.request[0], c.request[1], c.request[2] = byte(i), byte(i>>8), 1
		commit(t, m, i+2, c)
	}
	s, _ := m.current()
	require.Len(t, s.replies, maxReplies)
	require.Equal(t, int64(maxReplies+500)*1000, s.image.NextProducerID())
}

// randomCommands drives a machine through every kind of change.
func randomCommands(t testing.TB, m *machine, seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	name := func() string { return fmt.Sprintf("t%d", rng.IntN(8)) }
	value := func() *string { v := fmt.Sprint(1 + rng.IntN(1000)); return &v }
	for i := range n {
		var c command
		switch rng.IntN(7) {
		case 0, 1:
			c = &createTopics{ids: []uuid.UUID{{byte(i), byte(i >> 8), 7}}, topics: []CreateTopic{{
				Name: name(), Partitions: rng.Int32N(5), ReplicationFactor: int16(rng.IntN(3)),
				Configs: map[string]string{"retention.ms": *value()}}}}
		case 2:
			c = &deleteTopics{[]TopicRef{{Name: name()}, {Name: name()}}}
		case 3:
			c = &createPartitions{topics: []NewPartitions{{Topic: name(), Count: rng.Int32N(9)}}}
		case 4:
			c = &alterConfigs{resources: []ConfigResource{{Type: ResourceTopic, Name: name(),
				Changes: []ConfigChange{{Key: "segment.ms", Op: ConfigOp(rng.IntN(4)), Value: value()}}}}}
		case 5:
			c = &alterConfigs{resources: []ConfigResource{{Type: ResourceBroker,
				Changes: []ConfigChange{{Key: "log.retention.ms", Op: ConfigOp(rng.IntN(2)),
					Value: value()}}}}}
		case 6:
			c = &registerBroker{Registration{Broker: metadata.Broker{ID: rng.Int32N(3), Host: "h",
				Port: 1}, Clean: rng.IntN(2) == 0}}
		}
		commit(t, m, int64(i)+2, &call{request: uuid.UUID{byte(i), byte(i >> 8), 9}, command: c})
	}
}

// A snapshot and what follows it give the state that the whole log gives.
func TestSnapshotEqualsTheLog(t *testing.T) {
	for seed := range uint64(20) {
		m := newTestMachine()
		randomCommands(t, m, seed, 120)
		data, err := m.Snapshot()()
		require.NoError(t, err)
		restored := newTestMachine()
		require.NoError(t, restored.Restore(0, data))
		want, _ := m.current()
		got, _ := restored.current()
		require.Equal(t, want.image.Version(), got.image.Version())
		require.Equal(t, want.image.Records(), got.image.Records())
		require.Len(t, got.replies, len(want.replies))
		again, err := restored.Snapshot()()
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	}
}

func TestEqualLogsGiveEqualStates(t *testing.T) {
	a, b := newTestMachine(), newTestMachine()
	randomCommands(t, a, 4, 200)
	randomCommands(t, b, 4, 200)
	x, err := a.Snapshot()()
	require.NoError(t, err)
	y, err := b.Snapshot()()
	require.NoError(t, err)
	require.Equal(t, string(x), string(y))
}

func TestOldImagesDoNotChange(t *testing.T) {
	m := newTestMachine()
	randomCommands(t, m, 5, 60)
	old, _ := m.current()
	before, err := encodeRecords(old.image.Records())
	require.NoError(t, err)
	randomCommands(t, m, 6, 200)
	after, err := encodeRecords(old.image.Records())
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A later build's entries and snapshots end the node; a panic or a guess would split the cluster.
func TestUnknownVersionsAreErrors(t *testing.T) {
	m := newTestMachine()
	require.ErrorContains(t, m.Apply(1, []byte(`{"v":1}`)), "version 1, this build knows 0")
	require.Error(t, m.Apply(1, []byte(`{`)))
	require.ErrorContains(t, m.Restore(1, []byte(`{"v":9}`)), "version 9")
	require.Error(t, m.Restore(1, nil))
	unknown := `{"v":0,"base":0,"commands":[{"records":[{"kind":"later","v":0,"data":{}}]}]}`
	require.ErrorIs(t, m.Apply(1, []byte(unknown)), metadata.ErrUnknownRecord)
	later := `{"v":0,"base":0,"commands":[{"records":[{"kind":"topic","v":3,"data":{}}]}]}`
	require.ErrorIs(t, m.Apply(1, []byte(later)), metadata.ErrUnknownRecord)
	misfit := `{"v":0,"base":0,"commands":[{"records":[{"kind":"topicRemoved","v":0,"data":{}}]}]}`
	require.ErrorIs(t, m.Apply(1, []byte(misfit)), metadata.ErrBadRecord)
	s, _ := m.current()
	require.Zero(t, s.image.Version())
}

func TestStoredErrorsKeepKindAndReason(t *testing.T) {
	require.NoError(t, storeError(nil).err())
	for name, kind := range kinds {
		e := storeError(refuse(kind, "because"))
		require.Equal(t, name, e.Kind)
		require.ErrorIs(t, e.err(), kind)
		require.EqualError(t, e.err(), "because")
	}
	require.ErrorIs(t, (&storedError{Kind: "later"}).err(), ErrInvalidRequest)
}

func FuzzMachine(f *testing.F) {
	m := newTestMachine()
	randomCommands(f, m, 1, 30)
	snapshot, err := m.Snapshot()()
	require.NoError(f, err)
	f.Add(snapshot, true)
	s, _ := m.current()
	d, _ := decide(s, []*call{newCall(2, oneTopic("z", 1)), newCall(3, &allocateProducerIDs{})})
	data, err := json.Marshal(d.entry)
	require.NoError(f, err)
	f.Add(data, false)
	d.entry.Base = 0
	data, err = json.Marshal(d.entry)
	require.NoError(f, err)
	f.Add(data, false)
	f.Fuzz(func(t *testing.T, data []byte, isSnapshot bool) {
		m := newTestMachine()
		if !isSnapshot {
			_ = m.Apply(5, data)
			return
		}
		if m.Restore(5, data) != nil {
			return
		}
		again, err := m.Snapshot()()
		require.NoError(t, err)
		require.NoError(t, newTestMachine().Restore(5, again))
	})
}

func BenchmarkDecide(b *testing.B) {
	m := newTestMachine()
	commit(b, m, 2, newCall(1, brokerOne()))
	c := &createTopics{}
	for i := range 5000 {
		c.ids = append(c.ids, uuid.UUID{byte(i), byte(i >> 8), 1})
		c.topics = append(c.topics, CreateTopic{Name: fmt.Sprintf("t-%d", i), Partitions: 1,
			ReplicationFactor: 1})
	}
	commit(b, m, 3, newCall(2, c))
	s, _ := m.current()
	calls := []*call{newCall(3, oneTopic("another_topic", 255))}
	b.ReportAllocs()
	for b.Loop() {
		d, _ := decide(s, calls)
		if len(d.entry.Commands) != 1 {
			b.Fatal("not decided")
		}
	}
}
