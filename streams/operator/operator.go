package operator

// Operator is one step of one task. It is made for the task by a Factory and used by its goroutine
// only.
type Operator interface {
	// Process consumes in and appends its results to out, in order. The records of in may be
	// changed; neither batch may be kept. A fault of one record goes to ctx.Fail and is not
	// returned; a returned error stops the task.
	Process(ctx *Context, in, out *Batch) error
}

// InPlace is an Operator that can also work on its input without moving it. The task uses it when
// no other step reads the same batch.
type InPlace interface {
	Operator
	// ProcessInPlace changes or removes records of b, keeping their order.
	ProcessInPlace(ctx *Context, b *Batch) error
}

// Factory makes the operator of one task.
type Factory func() Operator

// Func is a step written as one function over batches.
type Func func(ctx *Context, in, out *Batch) error

// Process implements Operator.
func (f Func) Process(ctx *Context, in, out *Batch) error { return f(ctx, in, out) }

// StoreKind tells how the keys of a store are kept.
type StoreKind int8

// Kinds of stores.
const (
	// KeyValue is one ordered set of rows, reached with Context.Store.
	KeyValue StoreKind = iota
	// Windowed is a set of rows for every window start, reached with Context.Windows.
	Windowed
)

// StoreSpec names a store a step needs.
type StoreSpec struct {
	Name string
	Kind StoreKind
	// Format names the meaning of the rows; state written with another one is not read.
	Format string
}
