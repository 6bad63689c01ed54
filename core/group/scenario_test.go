package group

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
)

// TestScenarios runs the texts under testdata/scenarios against the machine of one shard, in
// virtual time and with a log in memory. Expected answers follow the KIP that a text names, or else
// the meaning that the protocol guide gives to the error codes.
//
//	options k=v…    start anew with options (delay, max, min-session, max-session, retention,
//	                check)
//	join NAME …     JoinGroup; NAME is the caller. id=ID instance=I client=C session=D
//	                rebalance=D protocols=(p=meta,…) type=T old (before v4) v9 (may skip the
//	                assignment) new (without an id)
//	sync NAME …     SyncGroup; gen=N id=ID instance=I assign=(id=bytes,…) protocol=P type=T
//	heartbeat NAME  gen=N id=ID instance=I
//	leave NAME…     LeaveGroup; instance=I for a static member without its id
//	commit NAME …   OffsetCommit; gen=N offsets=(topic/part=offset,…) epoch=N metadata=LENGTH
//	                keep=D
//	fetch           topics=(topic/part,…), or all; stable
//	txn-commit NAME TxnOffsetCommit; pid=N and pepoch=N of the producer, else as commit
//	marker pid=N    the producer's transaction ends; commit or abort, pepoch=N
//	compact         the log keeps the last record of each key, and no offsets of old transactions
//	describe, list states=(…) types=(…), delete
//	delete-offsets topics=(topic/part,…), topics-deleted topics=(…)
//	advance D       let time pass; what happens is printed with its time
//	fail CODE       the next append fails
//	restart         a new machine replays the log; the states before and after are compared
//	log             the records written since the last call
//
// Without id=, a caller uses the id it was last told. The group is "g" unless group= says
// otherwise.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := newScenario(t, Options{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			s.out.Reset()
			s.run(d)
			return s.out.String()
		})
	})
}

// start is when virtual time begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type scenario struct {
	t       *testing.T
	opts    Options
	m       *machine
	now     time.Time
	log     []coordinator.Entry
	shown   int // records of log that were printed
	fail    ErrorCode
	names   map[coordinator.Ticket]string // what each ticket waits for
	ids     map[string]string             // caller -> member id
	tickets coordinator.Ticket
	uuids   int
	out     strings.Builder
}

func newScenario(t *testing.T, opts Options) *scenario {
	return &scenario{
		t: t, opts: opts, now: start, names: make(map[coordinator.Ticket]string),
		ids: make(map[string]string), m: loaded(opts, start, nil),
	}
}

func loaded(opts Options, now time.Time, log []coordinator.Entry) *machine {
	opts = opts.withDefaults()
	m := newMachine(&opts, func() *Settings { return &opts.Settings })
	for _, e := range log {
		if err := replay(m, e); err != nil {
			panic(err)
		}
	}
	m.Loaded(now)
	return m
}

// handle does what the runtime does with one step.
func (s *scenario) handle(run func() coordinator.Step) {
	step := run()
	require.False(s.t, step.Again, "nothing is in flight here")
	outs := step.Outputs
	switch {
	case (len(step.Records) > 0 || step.Marker != nil) && s.fail != 0:
		if step.Fail != nil {
			outs = step.Fail(s.now, s.fail)
		} else {
			for i := range outs {
				outs[i].Value = codeOnly{s.fail}
			}
		}
		s.fail = 0
	default:
		for _, e := range s.entries(step) {
			s.log = append(s.log, e)
			require.NoError(s.t, replay(s.m, e))
		}
	}
	slices.SortStableFunc(outs, func(a, b coordinator.Output) int {
		return cmp.Compare(a.Ticket, b.Ticket)
	})
	for _, o := range outs {
		name := s.names[o.Ticket]
		if name == "" {
			continue
		}
		delete(s.names, o.Ticket)
		fmt.Fprintf(&s.out, "%s%s: %s\n", s.stamp(), name, s.show(name, o.Value))
	}
}

// stamp is the time since the start, if any has passed.
func (s *scenario) stamp() string {
	if s.now.Equal(start) {
		return ""
	}
	return s.now.Sub(start).String() + " "
}

func (s *scenario) submit(name string, in any) {
	s.tickets++
	t := s.tickets
	s.names[t] = name
	s.handle(func() coordinator.Step { return s.m.Handle(s.now, t, in) })
	if s.names[t] != "" {
		fmt.Fprintf(&s.out, "%s%s: waits\n", s.stamp(), name)
	}
}

// args reads a command's arguments.
type args struct{ d *datadriven.TestData }

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) list(key string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (a args) str(key, def string) string {
	if v := a.list(key); len(v) > 0 {
		return v[0]
	}
	return def
}

func (a args) duration(key string, def time.Duration) time.Duration {
	d, err := time.ParseDuration(a.str(key, def.String()))
	if err != nil {
		a.d.Fatalf(nil, "%s: %v", key, err)
	}
	return d
}

func (a args) int(key string, def int) int {
	n, err := strconv.Atoi(a.str(key, strconv.Itoa(def)))
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) optional(key string) *string {
	if !a.has(key) {
		return nil
	}
	v := a.str(key, "")
	return &v
}

// name is the first argument.
func (a args) name() string { return a.d.CmdArgs[0].Key }

func (a args) topics() []TopicPartitions {
	var list []TopicPartitions
	for _, v := range a.list("topics") {
		topic, p, _ := strings.Cut(v, "/")
		n, err := strconv.Atoi(p)
		if err != nil {
			panic(err)
		}
		list = append(list, TopicPartitions{Topic: topic, Partitions: []int32{int32(n)}})
	}
	return list
}

func (s *scenario) run(d *datadriven.TestData) {
	a := args{d}
	groupID := a.str("group", "g")
	switch d.Cmd {
	case "options":
		*s = *newScenario(s.t, Options{
			Settings: Settings{
				InitialRebalanceDelay: a.duration("delay", 3*time.Second),
				MaxSize:               a.int("max", 0),
				MinSessionTimeout:     a.duration("min-session", 0),
				MaxSessionTimeout:     a.duration("max-session", 0),
				OffsetsRetention:      a.duration("retention", 0),
			},
			RetentionCheckInterval: a.duration("check", 0),
		})
	case "join":
		s.join(a, groupID)
	case "sync":
		s.sync(a, groupID)
	case "heartbeat":
		s.submit("heartbeat "+a.name(), &HeartbeatRequest{
			GroupID: groupID, MemberID: a.str("id", s.ids[a.name()]),
			InstanceID: a.optional("instance"), Generation: int32(a.int("gen", 0)),
		})
	case "leave":
		s.leave(a, groupID)
	case "commit":
		s.commit(a, groupID)
	case "fetch":
		resp := s.m.fetch(&FetchRequest{
			GroupID: groupID, All: !a.has("topics"), Topics: a.topics(),
			RequireStable: a.has("stable"),
		})
		fmt.Fprintf(&s.out, "%v\n", resp.Code)
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				s.out.WriteString(showFetched(t.Topic, p))
			}
		}
	case "advance":
		s.advance(d)
	case "fail":
		n, err := strconv.Atoi(a.name())
		require.NoError(s.t, err)
		s.fail = ErrorCode(n)
	case "restart":
		s.restart()
	case "log":
		for _, e := range s.log[s.shown:] {
			s.out.WriteString(showEntry(e))
		}
		s.shown = len(s.log)
	default:
		s.admin(d, a, groupID)
	}
}

func (s *scenario) admin(d *datadriven.TestData, a args, groupID string) {
	switch d.Cmd {
	case "describe":
		s.out.WriteString(showDescription(s.m.describe(groupID)))
	case "list":
		resp := s.m.list(ListRequest{States: a.list("states"), Types: a.list("types")})
		sortGroups(resp.Groups)
		for _, g := range resp.Groups {
			fmt.Fprintf(&s.out, "%s %q %s %s\n", g.GroupID, g.ProtocolType, g.State, g.Type)
		}
	case "delete":
		s.submit("delete", deleteInput{groupID})
	case "delete-offsets":
		s.submit("delete-offsets", &DeleteOffsetsRequest{GroupID: groupID, Topics: a.topics()})
	case "topics-deleted":
		s.submit("topics-deleted", topicsDeletedInput{a.list("topics")})
	case "txn-commit":
		s.commitTransaction(a, groupID)
	case "marker":
		s.marker(a)
	case "compact":
		s.compact()
	default:
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
}

func (s *scenario) join(a args, groupID string) {
	s.uuids++
	req := &JoinRequest{
		GroupID: groupID, MemberID: a.str("id", s.ids[a.name()]), NewID: strconv.Itoa(s.uuids),
		InstanceID: a.optional("instance"),
		ClientID:   a.str("client", a.name()), ClientHost: "/127.0.0.1",
		ProtocolType:       a.str("type", "consumer"),
		SessionTimeoutMS:   int32(a.duration("session", 10*time.Second).Milliseconds()),
		RebalanceTimeoutMS: int32(a.duration("rebalance", time.Minute).Milliseconds()),
		RequireMemberID:    !a.has("old"), CanSkipAssignment: a.has("v9"),
	}
	if a.has("new") {
		req.MemberID = ""
	}
	protocols := a.list("protocols")
	if !a.has("protocols") {
		protocols = []string{"range=" + a.name()}
	}
	for _, p := range protocols {
		name, metadata, _ := strings.Cut(p, "=")
		req.Protocols = append(req.Protocols, Protocol{Name: name, Metadata: subscription(metadata)})
	}
	if s.ids[a.name()] == "" {
		s.ids[a.name()] = req.ClientID + "-" + req.NewID
	}
	s.submit("join "+a.name(), req)
}

// subscription is the metadata "sub:t+u" as a ConsumerProtocolSubscription v0 of topics t and u;
// any other text as it is.
func subscription(metadata string) []byte {
	topics, ok := strings.CutPrefix(metadata, "sub:")
	if !ok {
		return []byte(metadata)
	}
	names := strings.Split(topics, "+")
	b := []byte{0, 0, 0, 0, 0, byte(len(names))}
	for _, name := range names {
		b = append(b, 0, byte(len(name)))
		b = append(b, name...)
	}
	return b
}

func (s *scenario) sync(a args, groupID string) {
	req := &SyncRequest{
		GroupID: groupID, MemberID: a.str("id", s.ids[a.name()]), InstanceID: a.optional("instance"),
		Generation: int32(a.int("gen", 0)), Protocol: a.optional("protocol"),
		ProtocolType: a.optional("type"),
	}
	for _, v := range a.list("assign") {
		id, assignment, _ := strings.Cut(v, "=")
		req.Assignments = append(req.Assignments, Assignment{
			MemberID: id, Assignment: []byte(assignment),
		})
	}
	s.submit("sync "+a.name(), req)
}

func (s *scenario) leave(a args, groupID string) {
	req := &LeaveRequest{GroupID: groupID}
	for _, arg := range a.d.CmdArgs {
		switch arg.Key {
		case "group":
		case "instance":
			for _, v := range arg.Vals {
				req.Members = append(req.Members, LeaveMember{InstanceID: &v})
			}
		default:
			id := s.ids[arg.Key]
			if id == "" {
				id = arg.Key
			}
			req.Members = append(req.Members, LeaveMember{MemberID: id})
		}
	}
	s.submit("leave", req)
}

func (s *scenario) commit(a args, groupID string) {
	req := &CommitRequest{
		GroupID: groupID, MemberID: a.str("id", s.ids[a.name()]), InstanceID: a.optional("instance"),
		Generation: int32(a.int("gen", -1)), RetentionMS: -1,
	}
	if a.has("keep") {
		req.RetentionMS = a.duration("keep", 0).Milliseconds()
	}
	req.Offsets = s.offsets(a)
	s.submit("commit "+a.name(), req)
}

// offsets reads the offsets of a commit.
func (s *scenario) offsets(a args) []OffsetCommit {
	var list []OffsetCommit
	for _, v := range a.list("offsets") {
		where, offset, _ := strings.Cut(v, "=")
		topic, p, _ := strings.Cut(where, "/")
		partition, err := strconv.Atoi(p)
		require.NoError(s.t, err)
		n, err := strconv.ParseInt(offset, 10, 64)
		require.NoError(s.t, err)
		list = append(list, OffsetCommit{
			Topic: topic, Partition: int32(partition), Offset: n,
			LeaderEpoch: int32(a.int("epoch", -1)),
			Metadata:    strings.Repeat("m", a.int("metadata", 0)),
		})
	}
	return list
}

// advance lets time pass from one deadline to the next.
func (s *scenario) advance(d *datadriven.TestData) {
	by, err := time.ParseDuration(d.CmdArgs[0].Key)
	require.NoError(s.t, err)
	until := s.now.Add(by)
	for {
		at, ok := s.m.NextDeadline()
		if !ok || at.After(until) {
			break
		}
		if at.After(s.now) {
			s.now = at
		}
		s.handle(func() coordinator.Step { return s.m.Tick(s.now) })
	}
	s.now = until
}

// restart replaces the machine by one that replays the log, and says what is different.
func (s *scenario) restart() {
	before := showMachine(s.m)
	s.m = loaded(s.opts, s.now, s.log)
	for t, name := range s.names {
		delete(s.names, t)
		fmt.Fprintf(&s.out, "lost: %s\n", name)
	}
	after := showMachine(s.m)
	if before == after {
		s.out.WriteString("same state\n")
		return
	}
	fmt.Fprintf(&s.out, "before:\n%safter:\n%s", before, after)
}
