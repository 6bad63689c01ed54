package txn

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// TestScenarios runs the texts under testdata/scenarios against the machine of one shard, in
// virtual time and with a log in memory. Expected answers follow the KIP or rule that a text names,
// and Kafka 4.4.0 where it was asked (core/server/testdata/transactions_kafka_4.4.0.txt).
//
//	options k=D…    start anew with options (max, abort, expiration, check; level of
//	                transaction.version)
//	init            InitProducerId; timeout=MS pid=N epoch=N (what is expected)
//	add             AddPartitionsToTxn; pid=N epoch=N parts=(topic/partition,…) v2 patience=D
//	verify          the same, verify only
//	commit, abort   EndTxn; pid=N epoch=N v2
//	describe, list  states=(…) pids=(…) longer=D
//	markers         the markers of the job that is shown are written
//	advance D       let time pass; what happens is printed
//	exhaust         the epoch of the id becomes the last one that a client can have
//	fail CODE       the next append fails
//	restart         a new machine replays the log
//	log             the records written since the last call
//
// The transactional id is "t" unless id= says otherwise; producer ids count from 1000.
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
var start = time.UnixMilli(1_000_000)

type scenario struct {
	t       *testing.T
	opts    Options
	m       *machine
	now     time.Time
	log     []record.Record
	shown   int // records of log that were printed
	fail    ErrorCode
	tickets coordinator.Ticket
	names   map[coordinator.Ticket]string
	nextPID int64
	jobs    []markerJob
	out     strings.Builder
}

func newScenario(t *testing.T, opts Options) *scenario {
	s := &scenario{t: t}
	s.reset(opts)
	return s
}

func (s *scenario) reset(opts Options) {
	*s = scenario{
		t: s.t, opts: opts.withDefaults(), now: start, nextPID: 1000,
		names: make(map[coordinator.Ticket]string),
	}
	s.load()
}

// load makes a machine from the log.
func (s *scenario) load() {
	s.jobs = nil
	s.m = newMachine(&s.opts, func(j markerJob) {
		s.jobs = append(s.jobs, j)
		fmt.Fprintf(&s.out, "markers for %s: commit=%v pid=%d epoch=%d version=%d %v\n",
			j.id, j.commit, j.producer.ID, j.producer.Epoch, j.version, names(j.partitions))
	})
	for _, rec := range s.log {
		require.NoError(s.t, s.m.Replay(rec))
	}
	s.m.Loaded(s.now)
}

// handle does what the runtime does with one step.
func (s *scenario) handle(step coordinator.Step) (needsID bool) {
	require.False(s.t, step.Again, "nothing is in flight here")
	outs := step.Outputs
	if len(step.Records) > 0 && s.fail != 0 {
		outs = step.Fail(s.now, s.fail)
		s.fail = 0
	} else {
		for _, rec := range step.Records {
			s.log = append(s.log, rec)
			require.NoError(s.t, s.m.Replay(rec))
		}
	}
	require.Empty(s.t, s.m.flying)
	for _, o := range outs {
		if _, ok := o.Value.(needProducerID); ok {
			return true
		}
		if name := s.names[o.Ticket]; name != "" {
			delete(s.names, o.Ticket)
			fmt.Fprintf(&s.out, "%s: %s\n", name, show(o.Value))
		}
	}
	return false
}

// submit hands in what in makes of a new producer id, first without one.
func (s *scenario) submit(name string, in func(newPID int64) any) {
	s.tickets++
	t := s.tickets
	s.names[t] = name
	if s.handle(s.m.Handle(s.now, t, in(NoProducerID))) {
		id := s.nextPID
		s.nextPID++
		require.False(s.t, s.handle(s.m.Handle(s.now, t, in(id))))
	}
	if s.names[t] != "" {
		fmt.Fprintf(&s.out, "%s: waits\n", name)
	}
}

func names(ps []TopicPartition) []string {
	var all []string
	for _, p := range ps {
		all = append(all, fmt.Sprintf("%s/%d", p.Topic, p.Partition))
	}
	return all
}

func show(v any) string {
	producer := func(p Producer) string {
		if p == noProducer {
			return ""
		}
		return fmt.Sprintf(" pid=%d epoch=%d", p.ID, p.Epoch)
	}
	switch v := v.(type) {
	case InitResponse:
		return v.Code.String() + producer(v.Producer)
	case EndResponse:
		return v.Code.String() + producer(v.Producer)
	case AddResponse:
		var codes []string
		for _, c := range v.Partitions {
			codes = append(codes, c.String())
		}
		return strings.TrimSpace(v.Code.String() + " " + strings.Join(codes, ","))
	case Description:
		return fmt.Sprintf("%v%s %v timeout=%d start=%d %v", v.Code, producer(v.Producer), v.State,
			v.TimeoutMS, v.StartMS, names(v.Partitions))
	case ListResponse:
		sortListed(v.Transactions)
		return fmt.Sprint(v.Code, v.Transactions)
	case ErrorCode:
		return v.String()
	}
	panic(fmt.Sprintf("%T", v))
}

// args reads a command's arguments.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) list(key string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (a args) text(key, fallback string) string {
	if vals := a.list(key); len(vals) > 0 {
		return vals[0]
	}
	return fallback
}

func (a args) number(key string, fallback int64) int64 {
	n, err := strconv.ParseInt(a.text(key, fmt.Sprint(fallback)), 10, 64)
	require.NoError(a.t, err)
	return n
}

func (a args) duration(key string, fallback time.Duration) time.Duration {
	d, err := time.ParseDuration(a.text(key, fallback.String()))
	require.NoError(a.t, err)
	return d
}

func (a args) version() int16 {
	if a.d.HasArg("v2") {
		return versionTwo
	}
	return 0
}

func (a args) producer() Producer {
	return Producer{ID: a.number("pid", 1000), Epoch: int16(a.number("epoch", 0))}
}

func (a args) parts() []TopicPartition {
	var all []TopicPartition
	for _, name := range a.list("parts") {
		topic, n, _ := strings.Cut(name, "/")
		p, err := strconv.Atoi(n)
		require.NoError(a.t, err)
		all = append(all, TopicPartition{topic, int32(p)})
	}
	return all
}

func (s *scenario) run(d *datadriven.TestData) {
	a := args{s.t, d}
	id := a.text("id", "t")
	switch d.Cmd {
	case "options":
		level := int16(a.number("level", versionTwo))
		s.reset(Options{
			TransactionVersion: func() int16 { return level },
			MaxTimeout:         a.duration("max", 0), AbortInterval: a.duration("abort", 0),
			Expiration: a.duration("expiration", 0), ExpirationInterval: a.duration("check", 0),
		})
	case "init":
		req := InitRequest{TransactionalID: id, TimeoutMS: int32(a.number("timeout", 60000))}
		if d.HasArg("pid") {
			p := a.producer()
			req.Expected = &p
		}
		if code := s.opts.checkInit(&req); code != coordinator.CodeNone {
			fmt.Fprintf(&s.out, "init: %v\n", code)
			return
		}
		s.submit("init", func(pid int64) any { r := req; r.newProducerID = pid; return &r })
	case "add", "verify":
		req := &AddRequest{
			TransactionalID: id, Producer: a.producer(), Partitions: a.parts(),
			VerifyOnly: d.Cmd == "verify", TransactionVersion: a.version(),
			Patience: a.duration("patience", 0),
		}
		s.submit(d.Cmd, func(int64) any { return req })
	case "commit", "abort":
		req := EndRequest{
			TransactionalID: id, Producer: a.producer(), Commit: d.Cmd == "commit",
			TransactionVersion: a.version(),
		}
		s.submit(d.Cmd, func(pid int64) any { r := req; r.newProducerID = pid; return &r })
	case "describe":
		fmt.Fprintln(&s.out, show(s.m.describe(id)))
	case "list":
		s.list(a)
	default:
		s.control(d)
	}
}

func (s *scenario) list(a args) {
	req := ListRequest{LongerThan: a.duration("longer", -1)}
	for _, name := range a.list("states") {
		state, ok := StateByName(name)
		require.True(s.t, ok)
		req.States = append(req.States, state)
	}
	for _, pid := range a.list("pids") {
		n, err := strconv.ParseInt(pid, 10, 64)
		require.NoError(s.t, err)
		req.ProducerIDs = append(req.ProducerIDs, n)
	}
	fmt.Fprintln(&s.out, show(s.m.list(s.now, req)))
}

// control runs the commands that are no requests.
func (s *scenario) control(d *datadriven.TestData) {
	switch d.Cmd {
	case "markers":
		jobs := s.jobs
		s.jobs = nil
		for _, j := range jobs {
			in := markersWritten{id: j.id, producer: j.producer}
			s.submit("markers", func(int64) any { return in })
		}
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(s.t, err)
		s.advance(s.now.Add(by))
	case "exhaust":
		tx := s.m.txns[args{s.t, d}.text("id", "t")]
		tx.ProducerEpoch = math.MaxInt16 - 1
	case "fail":
		code, err := strconv.Atoi(d.CmdArgs[0].Key)
		require.NoError(s.t, err)
		s.fail = ErrorCode(code)
	case "restart":
		s.load()
	case "log":
		for _, rec := range s.log[s.shown:] {
			s.showRecord(rec)
		}
		s.shown = len(s.log)
	default:
		s.t.Fatalf("unknown command %q", d.Cmd)
	}
}

// advance runs the timers up to a time.
func (s *scenario) advance(until time.Time) {
	for {
		deadline, ok := s.m.NextDeadline()
		if !ok || deadline.After(until) {
			break
		}
		s.now = deadline
		s.handle(s.m.Tick(s.now))
	}
	s.now = until
}

func (s *scenario) showRecord(rec record.Record) {
	id, err := ReadKey(rec.Key)
	require.NoError(s.t, err)
	if rec.Value == nil {
		fmt.Fprintf(&s.out, "%s forgotten\n", id)
		return
	}
	md, err := ReadValue(rec.Value)
	require.NoError(s.t, err)
	fmt.Fprintf(&s.out, "%s %v pid=%d previous=%d next=%d epoch=%d client=%d %v\n", id, md.State,
		md.ProducerID, md.PreviousProducerID, md.NextProducerID, md.ProducerEpoch,
		md.ClientVersion, names(md.Partitions))
	require.True(s.t, slices.IsSortedFunc(md.Partitions, comparePartitions))
}
