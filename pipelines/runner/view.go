package runner

import (
	"errors"
	"sync"
	"time"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/streams/operator"
)

// Classes of record errors this layer adds to those of package operator.
const (
	classDecode = operator.ClassDecode
	classExpr   = "expr"
	classPlugin = "plugin"
)

// validated marks, in Record.Doc, a value that was found to be valid JSON, so that later steps
// need not look at all of it again.
type validated struct{}

// view lets the programs of one Set look at the records of one task. It belongs to one goroutine.
type view struct {
	env *expression.Env
	rec expression.Record
}

func newView(set *expression.Set, now func() time.Time) *view {
	return &view{env: set.NewEnv(expression.EnvOptions{Now: now})}
}

// at makes r what programs see until the next call.
func (v *view) at(r *operator.Record) *expression.Env {
	rec := &v.rec // field by field: a composite would be made first and then copied
	_, rec.ValueValid = r.Doc.(validated)
	rec.Key, rec.Value, rec.Headers, rec.Timestamp = r.Key, r.Value, r.Headers, r.Timestamp
	rec.Topic, rec.Partition, rec.Offset = r.Topic(), r.Partition(), r.Offset()
	rec.WindowStart, rec.WindowEnd, rec.RowsValid = r.Window.Start, r.Window.End, true
	v.env.Reset(&v.rec)
	return v.env
}

// note remembers in r what the programs found out about its value.
func (v *view) note(r *operator.Record) {
	if v.rec.ValueValid && r.Doc == nil {
		r.Doc = validated{}
	}
}

// setValue replaces the value of r by JSON this layer wrote.
func setValue(r *operator.Record, value []byte) {
	r.SetValue(value)
	r.Doc = validated{}
}

// classify gives an error of an expression the class that on_error names.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*expression.DecodeError](err); ok {
		return operator.WithClass(classDecode, err)
	}
	return operator.WithClass(operator.ClassOf(err, classExpr), err)
}

// classifyTime is classify for an event time: what is not a decode error concerns the time.
func classifyTime(err error) error {
	if _, ok := errors.AsType[*expression.DecodeError](err); ok {
		return operator.WithClass(classDecode, err)
	}
	return operator.WithClass(operator.ClassTimestamp, err)
}

// viewPool lends views to functions that tasks share.
type viewPool struct{ pool sync.Pool }

func newViewPool(set *expression.Set, now func() time.Time) *viewPool {
	return &viewPool{sync.Pool{New: func() any { return newView(set, now) }}}
}

func (p *viewPool) get() *view  { return p.pool.Get().(*view) }
func (p *viewPool) put(v *view) { p.pool.Put(v) }

// arena gives results their memory in large pieces: one allocation for many records.
type arena struct{ chunk []byte }

const (
	arenaChunk = 64 << 10
	arenaLeast = 2 << 10 // a piece smaller than this is not begun
)

// tail is an empty slice to append a result to; keep takes what was appended.
func (a *arena) tail() []byte {
	if cap(a.chunk)-len(a.chunk) < arenaLeast {
		a.chunk = make([]byte, 0, arenaChunk)
	}
	return a.chunk[len(a.chunk):]
}

// keep makes data, which was appended to tail, permanent. Data that outgrew the chunk has memory
// of its own already.
func (a *arena) keep(data []byte) []byte {
	if len(data) <= cap(a.chunk)-len(a.chunk) {
		a.chunk = a.chunk[:len(a.chunk)+len(data)]
	}
	return data[:len(data):len(data)]
}
