//go:build unix

package plugintest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Operator is a case for TestOperator.
type Operator struct {
	Common
	// Input are values the operator accepts, ten or more, as JSON or not. It must be deterministic.
	Input []string
}

// TestOperator proves an operator binary.
func TestOperator(t *testing.T, o Operator) {
	t.Run("spec", func(t *testing.T) { o.testSpec(t, pluginpb.Kind_KIND_OPERATOR) })
	t.Run("config", o.testConfig)
	t.Run("lifeline", o.testLifeline)
	t.Run("order", o.testOrder)
	t.Run("credits", o.testCredits)
	t.Run("large record", o.testLarge)
	t.Run("kill and resend", o.testKill)
	t.Run("drain", o.testDrain)
}

func (o *Operator) open(t *testing.T, p *host.Plugin) *host.Operator {
	t.Helper()
	op, err := p.Operator(t.Context(), host.OperatorOptions{Part: o.Part, Config: []byte(o.Config)})
	require.NoError(t, err)
	return op
}

// batches repeats the input until there are n batches.
func (o *Operator) batches(n int) [][]host.Record {
	out := make([][]host.Record, n)
	offset := int64(0)
	for i := range out {
		for _, v := range o.Input {
			r := NewRecord("", v)
			r.Offset, r.Timestamp = offset, 1_700_000_000_000+offset
			out[i] = append(out[i], r)
			offset++
		}
	}
	return out
}

// flat is what came of a batch, comparable.
func flat(r *host.Results) (out []string) {
	for i := range r.Len() {
		if e := r.Err(i); e != nil {
			out = append(out, "error "+e.Class+": "+e.Message)
		}
		for _, x := range r.Outputs(i) {
			out = append(out, string(x.Value))
		}
	}
	return out
}

// one runs batches one after the other.
func (o *Operator) one(t *testing.T, batches [][]host.Record) (out [][]string) {
	op := o.open(t, o.start(t))
	for _, b := range batches {
		r, err := op.Process(t.Context(), b)
		require.NoError(t, err)
		out = append(out, flat(r))
	}
	return out
}

func (o *Operator) testOrder(t *testing.T) {
	batches := o.batches(50)
	want := o.one(t, batches)
	op := o.open(t, o.start(t))
	var flying []*host.Pending
	for _, b := range batches {
		f, err := op.Submit(t.Context(), b)
		require.NoError(t, err)
		flying = append(flying, f)
		if len(flying) == 20 {
			o.wait(t, flying, want)
			want, flying = want[20:], nil
		}
	}
	o.wait(t, flying, want)
}

func (o *Operator) wait(t *testing.T, flying []*host.Pending, want [][]string) {
	t.Helper()
	for i, f := range flying {
		r, err := f.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, want[i], flat(r))
	}
}

// testCredits talks to the plugin directly and grants one frame at a time.
func (o *Operator) testCredits(t *testing.T) {
	rpc, err := o.start(t).Raw(t.Context())
	require.NoError(t, err)
	st, err := rpc.Operate(t.Context())
	require.NoError(t, err)
	send := func(m *pluginpb.ToPlugin) { require.NoError(t, st.Send(m)) }
	one := &pluginpb.Credit{Frames: 1, Bytes: 1}
	send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Open{Open: &pluginpb.Open{
		Part: o.Part, Config: []byte(o.Config), Credit: one,
	}}})
	for i, b := range o.batches(3) {
		send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Batch{Batch: &pluginpb.Batch{
			Seq: uint64(i + 1), Frame: pluginpb.Encode(b),
		}}})
	}
	results := make(chan uint64)
	go func() {
		defer close(results)
		for {
			m, err := st.Recv()
			if err != nil {
				return
			}
			if r := m.GetResult(); r != nil && !r.More {
				results <- r.Seq
			}
		}
	}()
	require.Equal(t, uint64(1), <-results)
	for seq := uint64(2); seq <= 3; seq++ {
		select {
		case got := <-results:
			t.Fatalf("result %d came without a credit", got)
		default:
		}
		send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Credit{Credit: one}})
		require.Equal(t, seq, <-results)
	}
	send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Drain{Drain: &pluginpb.Drain{TimeoutMs: 5000}}})
	_, more := <-results
	require.False(t, more)
}

// testLarge sends a record above gRPC's default limit of 4 MiB. What the operator makes of it
// is its business, but it must answer.
func (o *Operator) testLarge(t *testing.T) {
	op := o.open(t, o.start(t))
	value, err := json.Marshal(string(bytes.Repeat([]byte("x"), 5<<20)))
	require.NoError(t, err)
	r, err := op.Process(t.Context(), []host.Record{NewRecord("", `{"large":`+string(value)+`}`)})
	require.NoError(t, err)
	require.Equal(t, 1, r.Len())
	require.NotEqual(t, pluginpb.ClassPluginCrash, classOf(r.Err(0)))
}

func classOf(e *host.RecordError) string {
	if e == nil {
		return ""
	}
	return e.Class
}

func (o *Operator) testKill(t *testing.T) {
	batches := o.batches(20)
	want := o.one(t, batches)
	p := o.start(t)
	op := o.open(t, p)
	var flying []*host.Pending
	for _, b := range batches {
		f, err := op.Submit(t.Context(), b)
		require.NoError(t, err)
		flying = append(flying, f)
	}
	kill(t, p)
	o.wait(t, flying, want)
}

func (o *Operator) testDrain(t *testing.T) {
	op := o.open(t, o.start(t))
	batches := o.batches(10)
	var flying []*host.Pending
	for _, b := range batches {
		f, err := op.Submit(t.Context(), b)
		require.NoError(t, err)
		flying = append(flying, f)
	}
	within(t, drainLimit, "drain", op.Close)
	for _, f := range flying { // answered before the end
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
	}
}
