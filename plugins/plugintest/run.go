package plugintest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// Harness runs one operator in the test's process.
type Harness struct {
	t    testing.TB
	op   *host.Operator
	next int64
	out  []host.Record
	errs []host.RecordError
}

// Run opens an operator part with a configuration, given as JSON. It ends with the test.
func Run(t testing.TB, part sdk.Part, config string) *Harness {
	t.Helper()
	p, err := host.Start(t.Context(), host.Options{
		Name: part.Name(), InProcess: &sdk.Plugin{Name: part.Name(), Parts: []sdk.Part{part}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	op, err := p.Operator(t.Context(), host.OperatorOptions{Config: []byte(config), Task: t.Name()})
	require.NoError(t, err)
	return &Harness{t: t, op: op}
}

// NewRecord makes a record; key "" is a null key.
func NewRecord(key, value string) Record {
	r := host.Record{Record: record.Record{Value: []byte(value)}, Topic: "test"}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// Push sends values as one batch of records without keys.
func (h *Harness) Push(values ...string) *Harness {
	h.t.Helper()
	batch := make([]host.Record, len(values))
	for i, v := range values {
		batch[i] = NewRecord("", v)
	}
	return h.PushRecords(batch...)
}

// PushRecords sends records as one batch; they get the next offsets.
func (h *Harness) PushRecords(batch ...host.Record) *Harness {
	h.t.Helper()
	for i := range batch {
		batch[i].Offset = h.next
		h.next++
	}
	r, err := h.op.Process(h.t.Context(), batch)
	require.NoError(h.t, err)
	h.out = append(h.out, r.All()...)
	h.errs = append(h.errs, r.Errors()...)
	return h
}

// Want checks the values that came out since the last Want, in order, and that no record failed.
func (h *Harness) Want(values ...string) *Harness {
	h.t.Helper()
	require.Empty(h.t, h.errs)
	got := make([]string, 0, len(h.out))
	for _, r := range h.out {
		got = append(got, string(r.Value))
	}
	h.out = nil
	require.Equal(h.t, append([]string{}, values...), got)
	return h
}

// WantErrors checks the messages of the records that failed since the last WantErrors, in order.
func (h *Harness) WantErrors(messages ...string) *Harness {
	h.t.Helper()
	var got []string
	for _, e := range h.errs {
		got = append(got, e.Message)
	}
	h.errs = nil
	require.Equal(h.t, messages, got)
	return h
}

// Records returns what came out since the last Want or Records.
func (h *Harness) Records() []host.Record {
	out := h.out
	h.out = nil
	return out
}
