package classic

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// world drives one group with random requests, failing writes and passing time.
type world struct {
	t       *rapid.T
	g       *Group
	timers  *Timers
	config  Config
	now     time.Time
	ticket  coordinator.Ticket
	open    map[coordinator.Ticket]bool // asked and not answered
	ids     []string                    // member ids ever given out
	durable *offsets.GroupMetadata      // the last record that was written
	uuids   int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, timers: &Timers{}, now: time.Unix(0, 0), open: make(map[coordinator.Ticket]bool),
		config: Config{InitialRebalanceDelay: time.Second, MaxSize: 4},
	}
	w.g = New("g", &w.config, w.timers)
	return w
}

func (w *world) next() coordinator.Ticket {
	w.ticket++
	w.open[w.ticket] = true
	return w.ticket
}

// settle does with effects what the machine does; the write may fail.
func (w *world) settle(fx *Effects) {
	if fx.Record != nil {
		if rapid.IntRange(0, 4).Draw(w.t, "write") == 0 {
			outs := fx.Outputs
			if fx.Undo != nil {
				var undone Effects
				fx.Undo(w.now, coordinator.CodeCoordinatorNotAvailable, &undone)
				outs = undone.Outputs
			}
			w.answered(outs)
			return
		}
		// What is replayed is what was encoded.
		md, err := offsets.ReadGroup(offsets.AppendGroup(nil, fx.Record))
		require.NoError(w.t, err)
		w.g.Apply(md)
		w.durable = md
	}
	w.answered(fx.Outputs)
}

func (w *world) answered(outs []coordinator.Output) {
	for _, o := range outs {
		require.True(w.t, w.open[o.Ticket], "ticket %d answered twice: %+v", o.Ticket, o.Value)
		delete(w.open, o.Ticket)
		if join, ok := o.Value.(JoinResponse); ok && join.MemberID != "" {
			w.ids = append(w.ids, join.MemberID)
		}
	}
}

func (w *world) id() string {
	if len(w.ids) == 0 || rapid.IntRange(0, 9).Draw(w.t, "unknown") == 0 {
		return "nobody"
	}
	recent := w.ids[max(0, len(w.ids)-6):]
	return rapid.SampledFrom(recent).Draw(w.t, "id")
}

func (w *world) instance(id string) *string {
	if m := w.g.members[id]; m != nil && rapid.IntRange(0, 9).Draw(w.t, "right") > 0 {
		return m.instance
	}
	if rapid.Bool().Draw(w.t, "dynamic") {
		return nil
	}
	return new(rapid.SampledFrom([]string{"i1", "i2", "i3"}).Draw(w.t, "instance"))
}

// join sends a JoinGroup, of a new member or one that had an id.
func (w *world) join(t *rapid.T) {
	w.t = t
	w.uuids++
	req := &JoinRequest{
		GroupID: "g", NewID: fmt.Sprint(w.uuids), ClientID: "c", ProtocolType: "consumer",
		SessionTimeoutMS:   rapid.Int32Range(6, 20).Draw(t, "session") * 1000,
		RebalanceTimeoutMS: rapid.Int32Range(1, 20).Draw(t, "rebalance") * 1000,
		RequireMemberID:    rapid.Bool().Draw(t, "v4"), CanSkipAssignment: rapid.Bool().Draw(t, "v9"),
	}
	if rapid.IntRange(0, 2).Draw(t, "back") > 0 {
		req.MemberID = w.id()
	}
	req.InstanceID = w.instance(req.MemberID)
	all := []Protocol{{Name: "range"}, {Name: "sticky"}, {Name: "range", Metadata: []byte{1}}}
	n := rapid.IntRange(1, len(all)).Draw(t, "protocols")
	req.Protocols = rapid.Permutation(all).Draw(t, "order")[:n]
	var fx Effects
	w.g.Join(w.now, w.next(), req, &fx)
	w.settle(&fx)
}

func (w *world) generation() int32 {
	return w.g.generation - int32(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(w.t, "stale"))
}

func (w *world) sync(t *rapid.T) {
	w.t = t
	req := &SyncRequest{GroupID: "g", MemberID: w.id(), Generation: w.generation()}
	req.InstanceID = w.instance(req.MemberID)
	for id := range w.g.members {
		req.Assignments = append(req.Assignments, Assignment{id, []byte(id)})
	}
	var fx Effects
	w.g.Sync(w.now, w.next(), req, &fx)
	w.settle(&fx)
}

func (w *world) leave(t *rapid.T) {
	w.t = t
	id := w.id()
	var fx Effects
	w.g.Leave(w.now, []LeaveMember{{MemberID: id, InstanceID: w.instance(id)}}, &fx)
	w.settle(&fx)
}

func (w *world) heartbeat(t *rapid.T) {
	w.t = t
	id := w.id()
	req := &HeartbeatRequest{MemberID: id, InstanceID: w.instance(id), Generation: w.generation()}
	w.g.Heartbeat(w.now, req)
	w.g.CheckCommit(w.now, id, req.InstanceID, req.Generation)
}

// pass lets up to d pass, running timers at their time.
func (w *world) pass(d time.Duration) {
	until := w.now.Add(d)
	for {
		timer, at := w.timers.Next()
		if timer == nil || at.After(until) {
			break
		}
		if at.After(w.now) {
			w.now = at
		}
		w.timers.Stop(timer)
		var fx Effects
		timer.Run(w.now, &fx)
		w.settle(&fx)
		w.check(w.t)
	}
	w.now = until
}

// check asserts the invariants of the package's documentation.
func (w *world) check(t *rapid.T) {
	g := w.g
	votes, joining := make(map[string]int), 0
	for id, m := range g.members {
		require.Equal(t, id, m.id)
		require.True(t, m.timer.Armed(), "member %s has no session timer", id)
		if m.join != 0 {
			joining++
			require.Equal(t, PreparingRebalance, g.state)
			require.True(t, w.open[m.join])
		}
		if m.sync != 0 {
			require.Equal(t, CompletingRebalance, g.state)
			require.True(t, w.open[m.sync])
		}
		if m.instance != nil {
			require.Equal(t, id, g.static[*m.instance])
		}
		for i := range m.protocols {
			if indexOf(m.protocols, m.protocols[i].Name) == i {
				votes[m.protocols[i].Name]++
			}
		}
	}
	require.Equal(t, votes, g.votes)
	require.Equal(t, joining, g.joining)
	waiting := joining
	for _, m := range g.members {
		if m.sync != 0 {
			waiting++
		}
	}
	require.Len(t, w.open, waiting, "a ticket is neither answered nor with a member")
	if len(g.members) == 0 {
		require.Contains(t, []State{Empty, PreparingRebalance}, g.state)
	} else {
		require.NotEqual(t, Empty, g.state)
		require.NotNil(t, g.members[g.leader], "leader %q is no member", g.leader)
	}
	for id := range g.pendingSync {
		require.NotNil(t, g.members[id])
	}
	if g.state == Stable || g.state == CompletingRebalance {
		require.NotZero(t, g.votes[g.protocol])
	}
}

func TestGroupKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"join": w.join, "join again": w.join, "sync": w.sync, "sync again": w.sync,
			"leave": w.leave, "heartbeat": w.heartbeat,
			"time": func(t *rapid.T) {
				w.t = t
				w.pass(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"": w.check,
		})
		// Nobody comes back: everything that waits is answered and the group empties.
		w.t = t
		w.pass(time.Hour)
		require.Empty(t, w.open)
		require.Equal(t, Empty, w.g.state)
		timer, _ := w.timers.Next()
		require.Nil(t, timer, "an empty group has a timer left")
	})
}

// A group that is replayed from its last record is the one that wrote it.
func TestGroupReplayIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			rapid.SampledFrom([]func(*rapid.T){w.join, w.sync, w.sync}).Draw(t, "step")(t)
			w.pass(1500 * time.Millisecond)
		}
		if w.durable == nil || w.g.state != Stable ||
			w.g.sinceMS != w.durable.CurrentStateTimestamp {
			return // the last record is not the group's state now
		}
		again := New("g", &w.config, &Timers{})
		again.Apply(w.durable)
		require.Equal(t, w.g.Describe(), again.Describe())
		require.Equal(t, w.durable, again.metadata())
	})
}

// Ids that are only asked for do not fill the memory.
func TestPendingIDsAreBounded(t *testing.T) {
	g := New("g", &Config{MaxSize: 1 << 30}, &Timers{})
	ask := func(i int) ErrorCode {
		var fx Effects
		g.Join(time.Unix(0, 0), 1, &JoinRequest{
			GroupID: "g", NewID: fmt.Sprint(i), ProtocolType: "consumer", RequireMemberID: true,
			Protocols: []Protocol{{Name: "range"}}, SessionTimeoutMS: 1800000,
		}, &fx)
		return fx.Outputs[0].Value.(JoinResponse).Code
	}
	for i := range maxPending {
		require.Equal(t, coordinator.CodeMemberIDRequired, ask(i))
	}
	require.Equal(t, coordinator.CodeGroupMaxSizeReached, ask(maxPending))
}

// The bytes are a ConsumerProtocolSubscription v1 written by hand from its schema: version, topics,
// user data, owned partitions.
func TestReadSubscription(t *testing.T) {
	golden := "0001 00000002 0001 74 0002 7532 ffffffff 00000000"
	b, err := hex.DecodeString(strings.ReplaceAll(golden, " ", ""))
	require.NoError(t, err)
	topics := make(map[string]struct{})
	require.True(t, readSubscription(b, topics))
	require.Equal(t, map[string]struct{}{"t": {}, "u2": {}}, topics)
	for n := range 13 { // up to the end of the topics
		require.False(t, readSubscription(b[:n], topics), "cut to %d", n)
	}
}

func FuzzReadSubscription(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't'})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics := make(map[string]struct{})
		readSubscription(b, topics)
		require.LessOrEqual(t, len(topics), len(b))
	})
}

func TestTimersRunInOrder(t *testing.T) {
	var ts Timers
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	a, b, c := &Timer{}, &Timer{}, &Timer{}
	ts.Arm(a, at(1))
	ts.Arm(b, at(2))
	ts.Arm(c, at(3))
	ts.Arm(a, at(5)) // later: found out when it comes to the front
	ts.Arm(c, at(1)) // earlier
	ts.Stop(b)
	ts.Stop(b)
	next, when := ts.Next()
	require.Same(t, c, next)
	require.Equal(t, at(1), when)
	ts.Stop(c)
	next, when = ts.Next()
	require.Same(t, a, next)
	require.Equal(t, at(5), when)
	ts.Stop(a)
	next, _ = ts.Next()
	require.Nil(t, next)
}
