package expression

import (
	"bytes"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/vm"
)

// EnvOptions are what an Env needs from outside.
type EnvOptions struct {
	// Now is the clock of processing_time(). Default time.Now.
	Now func() time.Time
}

// Env runs the programs of one Set on one record after the other. It reuses everything it
// allocates, and belongs to one goroutine.
type Env struct {
	set     *Set
	now     func() time.Time
	machine vm.VM
	flat    map[string]any // the flat environment
	whole   map[string]any // the environment of plain programs
	// generation counts records; what was loaded for an older one is stale.
	generation uint64
	loaded     []uint64 // by name slot: generation of the value in flat
	cache      []boxed  // by name slot
	wholeAt    map[string]uint64
	docs       []docState
	rec        *Record
	from       origins
	scan       scanner
	wild       []byte // scratch for unescaping
}

// boxed is the last value of a slot. Fields often repeat; equal bytes need no new box.
type boxed struct {
	raw   []byte
	value any
	ok    bool
}

// docState is what an Env knows of one document of the current record.
type docState struct {
	generation uint64
	data       []byte
	spans      []span
	err        error
	// trusted: the caller said that data is valid, and only part of it was looked at here.
	trusted bool
	shapes  shapes // of earlier records
}

// complete looks at all of a document that was only trusted so far. A caller may be wrong, and
// what walks the whole text relies on its structure.
func (d *docState) complete(root string) error {
	if !d.trusted || d.err != nil {
		return d.err
	}
	var s scanner
	if err := s.run(d.data, nil, 1, false); err != nil {
		bad, _ := errors.AsType[*DecodeError](err)
		d.err = &DecodeError{What: root, Offset: bad.Offset, Reason: bad.Reason}
	}
	d.trusted = false
	return d.err
}

// maxCached bounds the text a slot remembers.
const maxCached = 64

// NewEnv returns an Env for the set's programs.
func (s *Set) NewEnv(opts EnvOptions) *Env {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	e := &Env{
		set: s, now: opts.Now, flat: make(map[string]any, len(s.names)), whole: map[string]any{},
		loaded: make([]uint64, len(s.names)), cache: make([]boxed, len(s.names)),
		wholeAt: map[string]uint64{}, docs: make([]docState, len(s.docs)), from: origins{},
	}
	e.machine.MemoryBudget = memoryBudget
	for i, d := range s.docs {
		e.docs[i].spans = make([]span, d.count+1)
	}
	vars := make(map[string]any, len(s.scope.Vars))
	for _, v := range s.scope.Vars {
		vars[v.Name] = v.Value
	}
	e.whole["vars"] = vars
	for _, n := range s.names {
		switch n.kind {
		case nameVar:
			e.flat[n.ident] = vars[n.arg]
		case nameVars:
			e.flat[n.ident] = vars
		}
	}
	return e
}

// Reset makes rec the record that programs see. rec must stay as it is until the next Reset.
func (e *Env) Reset(rec *Record) {
	e.rec = rec
	e.generation++
	if len(e.from) > 0 {
		clear(e.from)
	}
}

// document returns the scanned document i of the record.
func (e *Env) document(i int) *docState {
	d, spec := &e.docs[i], e.set.docs[i]
	if d.generation == e.generation {
		return d
	}
	d.generation, d.err, d.trusted = e.generation, nil, false
	valid := false
	switch {
	case i == 0:
		d.data, valid = e.rec.Value, e.rec.ValueValid
	case i == 1:
		d.data = e.rec.Key
	default:
		d.data, _ = e.rec.header(spec.header)
		valid = e.rec.RowsValid
	}
	switch {
	case spec.format == FormatString && !utf8.Valid(d.data):
		d.err = &DecodeError{What: spec.root, Reason: "invalid UTF-8"}
	case spec.format != FormatJSON:
	case d.data == nil:
		clear(d.spans)
		d.spans[0].kind = 'n'
	default:
		d.err = d.read(&e.scan, spec, !valid)
		d.trusted = valid
		if i == 0 && d.err == nil {
			e.rec.ValueValid = true
		}
	}
	if bad, ok := errors.AsType[*DecodeError](d.err); ok {
		bad.What = spec.root
	}
	return d
}

// read scans data for the paths that are asked for.
func (d *docState) read(s *scanner, spec *document, validate bool) error {
	s.spans = d.spans
	some := spec.wanted > 0 || validate
	if some && d.shapes.fits(s, d.data, validate) {
		return nil
	}
	err := s.run(d.data, spec.tree, spec.wanted, validate)
	if some && err == nil {
		d.shapes.miss(d.data, spec.tree, spec.wanted, !validate)
	}
	return err
}

// load puts what a program needs into the flat environment. ok is false when the record has a
// shape only the plain program can deal with.
func (e *Env) load(p *Program) (ok bool, err error) {
	for _, n := range p.names {
		if e.loaded[n.slot] == e.generation || n.kind == nameVar || n.kind == nameVars {
			continue
		}
		var v any
		switch n.kind {
		case namePath:
			d := e.document(n.doc)
			if d.err != nil {
				return false, d.err
			}
			at, fits := resolve(d.spans, n)
			if !fits {
				return false, nil
			}
			if v, fits = e.box(n, d.data, at); fits {
				e.loaded[n.slot] = e.generation
				continue // flat has it already
			}
		case nameText:
			d := e.document(n.doc)
			if d.err != nil {
				return false, d.err
			}
			v = text(d.data, e.set.docs[n.doc].format)
		default:
			v = e.metadata(n)
		}
		e.flat[n.ident] = v
		e.loaded[n.slot] = e.generation
	}
	return true, nil
}

func text(data []byte, format Format) any {
	switch {
	case data == nil:
		return nil
	case format == FormatString:
		return string(data)
	}
	return bytes.Clone(data)
}

// metadata is the value of a name that is not in a document.
func (e *Env) metadata(n *name) any {
	switch n.kind {
	case nameHeader:
		v, ok := e.rec.header(n.arg)
		if !ok || v == nil {
			return nil
		}
		return string(v)
	case nameHeaders:
		return e.headers()
	case nameTimestamp:
		return time.UnixMilli(e.rec.Timestamp).UTC()
	case nameTopic:
		return e.rec.Topic
	case namePartition:
		return int64(e.rec.Partition)
	case nameOffset:
		return e.rec.Offset
	case nameWindowStart:
		return time.UnixMilli(e.rec.WindowStart).UTC()
	case nameWindowEnd:
		return time.UnixMilli(e.rec.WindowEnd).UTC()
	case nameWindow:
		return map[string]any{"start": time.UnixMilli(e.rec.WindowStart).UTC(),
			"end": time.UnixMilli(e.rec.WindowEnd).UTC()}
	case nameClock:
		return e.now().UTC()
	}
	return nil
}

func (e *Env) headers() map[string]any {
	m := make(map[string]any, len(e.rec.Headers))
	for _, h := range e.rec.Headers {
		if h.Value == nil {
			m[h.Key] = nil
		} else if !IsPrivateHeader(h.Key) {
			m[h.Key] = string(h.Value)
		}
	}
	return m
}

// resolve finds where a path leads. fits is false when a parent on the way is null without a ?.
// behind it or is no object: the plain program then gives the exact result or error.
func resolve(spans []span, n *name) (at span, fits bool) {
	for i, id := range n.ids {
		at = spans[id]
		if i == len(n.steps) {
			return at, true
		}
		switch at.kind {
		case '{':
		case 0, 'n':
			return span{}, n.steps[i].optional
		default:
			return span{}, false
		}
	}
	return at, true
}

// box makes the Go value of a span. unchanged means flat holds that very value already.
func (e *Env) box(n *name, data []byte, at span) (v any, unchanged bool) {
	switch at.kind {
	case 0, 'n':
		e.cache[n.slot].ok = false
		return nil, false
	case 't', 'f':
		e.cache[n.slot].ok = false
		return at.kind == 't', false
	case '{', '[':
		e.cache[n.slot].ok = false
		d := decoder{data: data[at.start:at.end], from: e.from}
		return d.value(), false
	}
	raw, c := data[at.start:at.end], &e.cache[n.slot]
	if c.ok && bytes.Equal(c.raw, raw) {
		return c.value, true
	}
	switch {
	case at.kind == '0':
		v = parseNumber(raw)
	case at.escaped:
		e.wild = unescape(e.wild[:0], raw[1:len(raw)-1])
		v = string(e.wild)
	default:
		v = string(raw[1 : len(raw)-1])
	}
	if c.ok = len(raw) <= maxCached; c.ok {
		c.raw, c.value = append(c.raw[:0], raw...), v
	}
	return v, false
}

// loadWhole fills the environment of a plain program.
func (e *Env) loadWhole(p *Program) error {
	for _, root := range p.roots {
		if e.wholeAt[root] == e.generation || root == "vars" {
			continue
		}
		i := e.set.document(root)
		switch {
		case i < 0:
			e.whole[root] = e.metadata(e.set.names[root])
		default:
			d := e.document(i)
			if err := d.complete(root); err != nil {
				return err
			}
			e.whole[root] = e.decode(d, e.set.docs[i].format)
		}
		e.wholeAt[root] = e.generation
	}
	return nil
}

func (e *Env) decode(d *docState, format Format) any {
	if format != FormatJSON || d.data == nil {
		return text(d.data, format)
	}
	dec := decoder{data: d.data, from: e.from}
	return dec.value()
}
