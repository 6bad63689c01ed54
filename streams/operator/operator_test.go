package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// recorder is a Reporter that remembers.
type recorder struct {
	letters []DeadLetter
	records []record.Record
	late    []LateReport
}

func (r *recorder) DeadLetter(rec *Record, d DeadLetter) {
	r.letters = append(r.letters, d)
	r.records = append(r.records, d.Record(rec, "orders", "c0ffee"))
}

func (r *recorder) LateRecord(rec *Record, _ string, l LateReport) {
	r.late = append(r.late, l)
	r.records = append(r.records, l.Record(rec))
}

func testContext(p ErrorPolicy) (*Context, *recorder) {
	r := &recorder{}
	return NewContext(ContextOptions{Step: "step", OnError: p, Reporter: r}), r
}

// batchOf makes a batch of records with these values, read from orders-2 at offsets 0, 1, …
func batchOf(values ...string) *Batch {
	b := &Batch{}
	in := &Input{Topic: "orders", Partition: 2}
	for i, v := range values {
		raw := &record.Record{Offset: int64(i), Timestamp: 100, Key: []byte("k"), Value: []byte(v)}
		b.Records = append(b.Records, Record{Key: raw.Key, Value: raw.Value, Raw: raw, From: in,
			Order: int64(2*i + 1), StreamTime: 100})
	}
	return b
}

func values(b *Batch) (list []string) {
	for _, r := range b.Records {
		list = append(list, string(r.Value))
	}
	return list
}

var errBad = errors.New("bad value")

func notBad(r *Record) error {
	if string(r.Value) == "bad" {
		return errBad
	}
	return nil
}

// process runs a step both ways and requires the same result.
func process(t *testing.T, f Factory, p ErrorPolicy, in ...string) (*Batch, *recorder, error) {
	ctx, r := testContext(p)
	out := &Batch{}
	op := f()
	err := op.Process(ctx, batchOf(in...), out)
	if x, ok := op.(InPlace); ok {
		ctx, r2 := testContext(p)
		b := batchOf(in...)
		err2 := x.ProcessInPlace(ctx, b)
		require.Equal(t, err, err2)
		require.Equal(t, r, r2)
		if err == nil {
			require.Equal(t, values(out), values(b))
		}
	}
	return out, r, err
}

func TestStatelessStepsPassOnOrReport(t *testing.T) {
	dlq := ErrorPolicy{DeadLetterTopic: "dlq"}
	keep := func(r *Record) (bool, error) { return r.Value[0] != 'x', notBad(r) }
	out, r, err := process(t, Filter(keep), dlq, "x1", "a", "bad", "x2", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, values(out))
	require.Len(t, r.letters, 1)

	out, r, err = process(t, Map(func(r *Record) error {
		r.SetValue([]byte(strings.ToUpper(string(r.Value))))
		return notBad(r)
	}), dlq, "a", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"A", "B"}, values(out))
	require.Empty(t, r.letters)

	out, r, err = process(t, FlatMap(func(r *Record, emit func(Record)) error {
		for _, part := range strings.Split(string(r.Value), ",") {
			x := *r
			x.SetValue([]byte(part))
			if err := notBad(&x); err != nil {
				return err
			}
			emit(x)
		}
		return nil
	}), dlq, "a,b", "c,bad,d", "e")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "e"}, values(out), "nothing of a record that fails")
	require.EqualValues(t, "c,bad,d", r.records[0].Value)
	require.EqualValues(t, 1, out.Records[0].Order)
	require.EqualValues(t, 1, out.Records[1].Order)
	require.EqualValues(t, 5, out.Records[2].Order)
}

func TestSelectKeyTreatsNullKeysAsAsked(t *testing.T) {
	key := func(r *Record) ([]byte, error) {
		if string(r.Value) == "null" {
			return nil, nil
		}
		return r.Value[:1], notBad(r)
	}
	dlq := ErrorPolicy{DeadLetterTopic: "dlq"}
	out, r, err := process(t, SelectKey(key, NullKeyFails), dlq, "abc", "null", "bad", "def")
	require.NoError(t, err)
	require.Equal(t, []string{"abc", "def"}, values(out))
	require.EqualValues(t, "d", out.Records[1].Key)
	require.Equal(t, []string{ClassNullKey, ClassOperator},
		[]string{r.letters[0].Class, r.letters[1].Class})

	out, r, err = process(t, SelectKey(key, NullKeyDrop), dlq, "null", "def")
	require.NoError(t, err)
	require.Equal(t, []string{"def"}, values(out))
	require.Empty(t, r.letters)

	out, _, err = process(t, SelectKey(key, NullKeySpread), dlq, "null", "def")
	require.NoError(t, err)
	require.Equal(t, []string{"null", "def"}, values(out))
	require.Nil(t, out.Records[0].Key)

	_, _, err = process(t, SelectKey(key, NullKeyFails), ErrorPolicy{}, "null")
	require.ErrorIs(t, err, ErrNullKey, "without a dead-letter topic the task stops")
}

func TestBranchFirstMatchWins(t *testing.T) {
	has := func(c string) func(*Record) (bool, error) {
		return func(r *Record) (bool, error) {
			return strings.Contains(string(r.Value), c), notBad(r)
		}
	}
	ctx, r := testContext(ErrorPolicy{DeadLetterTopic: "dlq"})
	outs := []*Batch{{}, {}, {}}
	ctx.SetOutputs(outs)
	op := Branch([]Case{{"x", has("x")}, {"y", has("y")}, {"rest", nil}})()
	require.NoError(t, op.Process(ctx, batchOf("y", "xy", "z", "bad", "x"), outs[0]))
	require.Equal(t, []string{"xy", "x"}, values(outs[0]))
	require.Equal(t, []string{"y"}, values(outs[1]))
	require.Equal(t, []string{"z"}, values(outs[2]))
	require.Len(t, r.letters, 1)

	outs = []*Batch{{}}
	ctx.SetOutputs(outs)
	op = Branch([]Case{{"x", has("x")}})()
	require.NoError(t, op.Process(ctx, batchOf("y", "x"), outs[0]))
	require.Equal(t, []string{"x"}, values(outs[0]), "what no case takes leaves the stream")
}

func TestErrorPolicyActsByClass(t *testing.T) {
	p := ErrorPolicy{}
	require.Equal(t, Stop, p.ActionFor("expr"))
	p.DeadLetterTopic = "dlq"
	require.Equal(t, ToDeadLetter, p.ActionFor("expr"))
	p.Then, p.ByClass = Drop, map[string]Action{"decode": Stop, "late": DefaultAction}
	require.Equal(t, Drop, p.ActionFor("expr"))
	require.Equal(t, Stop, p.ActionFor("decode"))
	require.Equal(t, Drop, p.ActionFor("late"))

	_, r, err := process(t, Map(notBad), ErrorPolicy{Then: Drop, DeadLetterTopic: "dlq"}, "bad")
	require.NoError(t, err)
	require.Empty(t, r.letters)

	_, _, err = process(t, Map(notBad), ErrorPolicy{Then: ToDeadLetter}, "a", "bad")
	var stop *StopError
	require.ErrorAs(t, err, &stop)
	require.ErrorContains(t, err, "no dead-letter topic")

	_, _, err = process(t, Map(notBad), ErrorPolicy{Then: Stop, DeadLetterTopic: "dlq"}, "a", "bad")
	require.ErrorAs(t, err, &stop)
	require.ErrorIs(t, err, errBad)
	require.EqualError(t, err, "step step, record orders-2@1: bad value (class operator)")
}

// The header names and the original bytes are a contract with the tools that show dead letters.
func TestDeadLetterRecord(t *testing.T) {
	ctx, r := testContext(ErrorPolicy{DeadLetterTopic: "dlq"})
	b := batchOf("v0", "v1")
	rec := &b.Records[1]
	rec.Raw.Headers = []record.Header{{Key: "trace", Value: []byte("7")},
		{Key: HeaderLane, Value: []byte("internal")}}
	rec.Key, rec.Value, rec.Doc = []byte("changed"), []byte("changed"), "changed"
	require.NoError(t, ctx.Fail(rec, "expr", &Error{Class: "plugin", Attempts: 3, Err: errBad}))
	require.Equal(t, record.Record{Timestamp: 100, Key: []byte("k"), Value: []byte("v1"),
		Headers: []record.Header{
			{Key: "trace", Value: []byte("7")},
			{Key: "ms-dlq-pipeline", Value: []byte("orders")},
			{Key: "ms-dlq-step", Value: []byte("step")},
			{Key: "ms-dlq-class", Value: []byte("plugin")},
			{Key: "ms-dlq-error", Value: []byte("bad value")},
			{Key: "ms-dlq-topic", Value: []byte("orders")},
			{Key: "ms-dlq-partition", Value: []byte("2")},
			{Key: "ms-dlq-offset", Value: []byte("1")},
			{Key: "ms-dlq-timestamp", Value: []byte("100")},
			{Key: "ms-dlq-attempts", Value: []byte("3")},
			{Key: "ms-dlq-config-hash", Value: []byte("c0ffee")},
		}}, r.records[0])
	s := ctx.Stats()
	require.EqualValues(t, 1, s.Errors.Load())
	require.EqualValues(t, 1, s.DeadLetters.Load())

	require.NoError(t, ctx.Fail(rec, "expr", errors.New("a"+strings.Repeat("é", 5000))))
	text, _ := r.records[1].Header(HeaderDLQError)
	require.Len(t, text, maxErrorText-1+len("..."), "no half rune at the end")
	require.NotContains(t, string(text), "\ufffd")
}

func TestLateRecordsGoWhereThePolicySays(t *testing.T) {
	report := LateReport{First: Window{Start: 0, End: 10},
		Last: Window{Start: 5, End: 15}, Grace: 2, Partly: true}
	run := func(p ErrorPolicy, late LatePolicy) (*Context, *recorder) {
		r := &recorder{}
		ctx := NewContext(ContextOptions{Step: "step", OnError: p, Late: late, Reporter: r})
		require.NoError(t, ctx.Late(&batchOf("v").Records[0], report))
		require.EqualValues(t, 1, ctx.Stats().Late.Load())
		require.EqualValues(t, 100, ctx.Stats().LastLate().StreamTime)
		require.EqualValues(t, 2, ctx.Stats().LastLate().Partition)
		return ctx, r
	}
	_, r := run(ErrorPolicy{}, LatePolicy{})
	require.Equal(t, &recorder{}, r, "without a dead-letter topic late records are counted")

	_, r = run(ErrorPolicy{DeadLetterTopic: "dlq"}, LatePolicy{Action: LateDrop})
	require.Equal(t, &recorder{}, r)

	ctx, r := run(ErrorPolicy{DeadLetterTopic: "dlq"}, LatePolicy{})
	require.Equal(t, ClassLate, r.letters[0].Class)
	require.Equal(t, "record of 1970-01-01T00:00:00Z is late: "+
		"windows [1970-01-01T00:00:00Z, 1970-01-01T00:00:00.01Z) to "+
		"[1970-01-01T00:00:00.005Z, 1970-01-01T00:00:00.015Z) closed, "+
		"stream time is 1970-01-01T00:00:00.1Z, grace 2ms; other windows took it",
		r.letters[0].Message)
	require.Contains(t, LateReport{StreamTime: EndOfTime}.String(), "stream time is the end of input")
	require.Zero(t, ctx.Stats().Errors.Load())
	require.EqualValues(t, 1, ctx.Stats().DeadLetters.Load())

	_, r = run(ErrorPolicy{}, LatePolicy{Action: LateSide, Topic: "late"})
	require.Equal(t, []record.Header{
		{Key: "ms-late-step", Value: []byte("step")},
		{Key: "ms-late-window", Value: []byte("[0,10)..[5,15)")},
		{Key: "ms-late-stream-time", Value: []byte("100")},
	}, r.records[0].Headers)

	r = &recorder{}
	ctx = NewContext(ContextOptions{Step: "step", Late: LatePolicy{Action: LateDeadLetter},
		Reporter: r})
	var stop *StopError
	require.ErrorAs(t, ctx.Late(&batchOf("v").Records[0], report), &stop)
}

func TestOrderAtFindsTheEventThatMovedTime(t *testing.T) {
	b := Batch{Steps: []TimeStep{{Time: 10, Order: 2}, {Time: 12, Order: 6},
		{Time: 30, Order: 8}}}
	for due, order := range map[int64]int64{9: 2, 10: 2, 11: 6, 12: 6, 13: 8, 30: 8} {
		require.Equal(t, order, b.OrderAt(due), "due %d", due)
	}
}

func TestEncodeWritesTheNewerForm(t *testing.T) {
	key, value, err := Encode(&Record{Key: []byte("k"), Value: []byte("v"), Doc: 1})
	require.NoError(t, err)
	require.Equal(t, "k v", string(key)+" "+string(value))
	r := &Record{Value: []byte("old")}
	r.SetDoc(map[string]any{"b": 1, "a": "x"})
	_, value, err = Encode(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":"x","b":1}`, string(value))
	r.SetDoc(nil)
	_, value, err = Encode(r)
	require.NoError(t, err)
	require.Nil(t, value)
	r.SetDoc(func() {})
	_, _, err = Encode(r)
	require.Error(t, err)
}
