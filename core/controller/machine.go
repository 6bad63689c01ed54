package controller

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
)

// maxReplies bounds the replies kept for commands that are sent again. A command is repeated within
// seconds; this many last for minutes even under a flood.
const maxReplies = 4096

const snapshotVersion = 0

// state is what the log has made so far. Images in it are immutable, and the reply list is only
// appended to or replaced, so that a copy of the struct is a snapshot.
type state struct {
	image   *metadata.Image
	replies []storedReply // the oldest first
}

// storedReply is the reply to a command that was done.
type storedReply struct {
	Request uuid.UUID       `json:"request"`
	Reply   json.RawMessage `json:"reply"`
}

// snapshotFile is a snapshot of state.
type snapshotFile struct {
	Version int               `json:"v"`
	Index   int64             `json:"index"` // of the image
	Records []json.RawMessage `json:"records"`
	Replies []storedReply     `json:"replies"`
}

// machine is the raft state machine: it replays records.
type machine struct {
	nodeID int32
	static map[string]string
	toNode func(raftID uint64) int32

	mu struct {
		sync.Mutex
		state  state
		leader int32
	}
	changed chan struct{} // of capacity 1: state or leader changed
}

var _ raft.StateMachine = (*machine)(nil)

func newMachine(nodeID int32, static map[string]string, toNode func(uint64) int32) *machine {
	m := &machine{nodeID: nodeID, static: static, toNode: toNode, changed: make(chan struct{}, 1)}
	m.mu.state.image = metadata.NewImage(nodeID, static)
	m.mu.leader = metadata.NoLeader
	return m
}

// current returns the state as applied, which watchers may not have seen yet, and the leader.
func (m *machine) current() (state, int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.state, m.mu.leader
}

func (m *machine) set(s state) {
	m.mu.Lock()
	m.mu.state = s
	m.mu.Unlock()
	m.signal()
}

func (m *machine) signal() {
	select {
	case m.changed <- struct{}{}:
	default: // the publisher has not looked since the last signal
	}
}

// LeaderChanged implements raft.StateMachine.
func (m *machine) LeaderChanged(id uint64) {
	m.mu.Lock()
	m.mu.leader = m.toNode(id)
	m.mu.Unlock()
	m.signal()
}

// Apply implements raft.StateMachine.
func (m *machine) Apply(index uint64, command []byte) error {
	e, err := decodeEntry(command)
	if err != nil {
		return err
	}
	before, _ := m.current()
	after, err := replay(before, int64(index), e)
	if err != nil {
		return err
	}
	m.set(after)
	return nil
}

// replay applies an entry. One that was decided on another state changes nothing.
func replay(s state, index int64, e entry) (state, error) {
	if e.Base != s.image.Version() {
		return s, nil
	}
	delta := metadata.NewDelta(s.image)
	replies := s.replies
	for _, c := range e.Commands {
		records, err := decodeRecords(c.Records)
		if err != nil {
			return s, err
		}
		for _, r := range records {
			setEpoch(r, index)
			if err := delta.Apply(r); err != nil {
				return s, err
			}
		}
		replies = append(replies, storedReply{c.Request, c.Reply})
	}
	if extra := len(replies) - maxReplies; extra > 0 {
		// A new array, now and then, so that the dropped ones can be collected.
		replies = append(make([]storedReply, 0, 2*maxReplies), replies[extra:]...)
	}
	return state{image: delta.Image(index), replies: replies}, nil
}

// setEpoch fills an epoch that is the index of the record's entry.
func setEpoch(r metadata.Record, index int64) {
	switch r := r.(type) {
	case *metadata.BrokerRecord:
		if r.Epoch == epochOfEntry {
			r.Epoch = index
		}
	case *metadata.FeatureRecord:
		if r.Epoch == epochOfEntry {
			r.Epoch = index
		}
	}
}

// Snapshot implements raft.StateMachine.
func (m *machine) Snapshot() func() ([]byte, error) {
	s, _ := m.current()
	return func() ([]byte, error) {
		records, err := encodeRecords(s.image.Records())
		if err != nil {
			return nil, err
		}
		return json.Marshal(snapshotFile{
			Version: snapshotVersion, Index: s.image.Version(),
			Records: records, Replies: s.replies,
		})
	}
}

// Restore implements raft.StateMachine.
func (m *machine) Restore(_ uint64, snapshot []byte) error {
	var f snapshotFile
	if err := json.Unmarshal(snapshot, &f); err != nil {
		return fmt.Errorf("decode controller snapshot: %w", err)
	}
	if f.Version != snapshotVersion {
		return fmt.Errorf("controller snapshot has version %d, this build knows %d",
			f.Version, snapshotVersion)
	}
	records, err := decodeRecords(f.Records)
	if err != nil {
		return err
	}
	delta := metadata.NewDelta(metadata.NewImage(m.nodeID, m.static))
	for _, r := range records {
		if err := delta.Apply(r); err != nil {
			return err
		}
	}
	m.set(state{image: delta.Image(f.Index), replies: f.Replies})
	return nil
}

// reply returns the reply to a request that was done.
func (s state) reply(request uuid.UUID) (json.RawMessage, bool) {
	for i := len(s.replies) - 1; i >= 0; i-- {
		if s.replies[i].Request == request {
			return s.replies[i].Reply, true
		}
	}
	return nil, false
}
