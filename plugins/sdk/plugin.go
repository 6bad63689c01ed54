package sdk

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Version is the version of this SDK, reported to the host.
const Version = "0.1.0"

// Plugin is what one process serves.
type Plugin struct {
	Name    string // as pipelines refer to it
	Version string // semantic version, "" = unknown
	Doc     string // one sentence
	Parts   []Part
}

// Part is one operator, source or sink of a plugin, made by NewMap, NewFilter, NewFlatMap,
// NewBatch, NewSource or NewSink.
type Part struct {
	name          string
	doc           string
	kind          pluginpb.Kind
	preservesKey  bool
	deterministic bool
	exact         bool
	timers        bool
	wallTimers    *bool // of an operator with timers: some are of the machine's clock
	shape         *shape
	err           error // a mistake in the configuration type
	validate      func(config []byte) []*pluginpb.Diagnostic
	operator      func(config []byte) (operator, []*pluginpb.Diagnostic)
	source        func(config []byte) (source, []*pluginpb.Diagnostic)
	sink          func(config []byte) (sink, []*pluginpb.Diagnostic)
}

// Name returns the part's name.
func (p Part) Name() string { return p.name }

// WithDoc returns the part with a one-sentence description.
func (p Part) WithDoc(doc string) Part {
	p.doc = doc
	return p
}

// NotDeterministic returns the part with the remark that the same input may give other records the
// next time: it asks a clock, a random source or another system. Operators and sources are taken
// to be deterministic without it, and what they write is then exactly the same after a crash.
func (p Part) NotDeterministic() Part {
	p.deterministic = false
	return p
}

// Exactly returns the sink with the promise that each record is written once, also when it is
// killed at any moment: it keeps the next offset of each partition together with what it wrote,
// and skips records below it.
func (p Part) Exactly() Part {
	p.exact = true
	return p
}

// Emit passes a record on. What it was given may be changed and emitted again afterwards.
type Emit func(*Record)

// Map serves an operator that changes each record in place. It does not return.
func Map[C any](name string, fn func(Ctx, C, *Record) error) { serveOne(NewMap(name, fn)) }

// Filter serves an operator that keeps the records for which fn is true. It does not return.
func Filter[C any](name string, fn func(Ctx, C, *Record) (bool, error)) {
	serveOne(NewFilter(name, fn))
}

// FlatMap serves an operator that emits any number of records for each. It does not return.
func FlatMap[C any](name string, fn func(Ctx, C, *Record, Emit) error) {
	serveOne(NewFlatMap(name, fn))
}

// Batch serves an operator that sees many records at a time. It does not return.
func Batch[C any](name string, fn func(Ctx, C, *Records) error) { serveOne(NewBatch(name, fn)) }

// Source serves a source; open makes one for each task. It does not return.
func Source[C, P any](name string, open func() SourceReader[C, P]) {
	serveOne(NewSource(name,
		open))
}

// Sink serves a sink; open makes one for each task. It does not return.
func Sink[C any](name string, open func() SinkWriter[C]) { serveOne(NewSink(name, open)) }

func serveOne(p Part) { Serve(Plugin{Name: p.name, Doc: p.doc, Parts: []Part{p}}) }

// newPart fills in what all parts have. The instance hooks stay to the caller.
func newPart[C any](name string, k pluginpb.Kind) Part {
	p := Part{name: name, kind: k}
	t := reflect.TypeFor[C]()
	p.shape, p.err = shapeOf(t)
	if p.err == nil && p.shape.kind != kindObject && p.shape.kind != kindMap {
		p.err = fmt.Errorf("configuration type %s is not a struct", t)
	}
	s := p.shape
	p.validate = func(config []byte) []*pluginpb.Diagnostic {
		_, found := decodeConfig[C](s, config)
		return found
	}
	return p
}

// check returns the author's mistakes.
func (p Plugin) check() error {
	if p.Name == "" {
		return fmt.Errorf("plugin without a name")
	}
	if len(p.Parts) == 0 {
		return fmt.Errorf("plugin %q has no parts", p.Name)
	}
	seen := map[string]bool{}
	for _, part := range p.Parts {
		switch {
		case part.validate == nil:
			return fmt.Errorf("plugin %q: a Part that no New function made", p.Name)
		case part.name == "":
			return fmt.Errorf("plugin %q: a part without a name", p.Name)
		case seen[part.name]:
			return fmt.Errorf("plugin %q: two parts named %q", p.Name, part.name)
		case part.err != nil:
			return fmt.Errorf("plugin %q, part %q: %w", p.Name, part.name, part.err)
		}
		seen[part.name] = true
	}
	return nil
}

// Local returns a client of p in this process: the same code as in a process of its own, over
// channels instead of a socket. It is for tests and for trusted code. A panic of the author's
// code ends its stream instead of the process.
func Local(p Plugin) (pluginpb.PluginClient, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return pluginpb.Local(&server{plugin: p}), nil
}

// Check validates a configuration of the part, as the host's lint does.
func (p Part) Check(config []byte) []Diagnostic {
	if p.err != nil {
		return []Diagnostic{{Message: p.err.Error()}}
	}
	var out []Diagnostic
	for _, d := range p.validate(config) {
		out = append(out, Diagnostic{Pointer: d.Pointer, Message: d.Message, Hint: d.Hint})
	}
	return out
}

// Diagnostic is one finding about a configuration.
type Diagnostic struct {
	Pointer string // RFC 6901 JSON pointer, "" = the whole
	Message string
	Hint    string
}

// baseContext is a Ctx for calls outside a stream.
func baseContext(ctx context.Context, log logSender, task string) Ctx {
	return Ctx{Context: ctx, log: newLogger(log, task), output: outputWriter{log}}
}
