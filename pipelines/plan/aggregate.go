package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
)

// WindowKind is a way to cut the records of a key.
type WindowKind string

// The kinds of windows. NoWindow is all records of a key.
const (
	NoWindow  WindowKind = ""
	Tumbling  WindowKind = "tumbling"
	Hopping   WindowKind = "hopping"
	Session   WindowKind = "session"
	Sliding   WindowKind = "sliding"
	CountOf   WindowKind = "count"
	EmitEvery            = "every"
)

// Aggregate folds the records of a key and window. The record's key is the group; what comes out
// has that key, an object of Fields in their order (or what Reduce makes) as value, and a window.
type Aggregate struct {
	Window WindowKind
	// Size, Every and Offset define tumbling and hopping windows [Offset + n*Every, … + Size).
	// Size is also the gap of sessions and the span of sliding windows.
	Size, Every, Offset time.Duration
	// Count is the size of count windows.
	Count  int64
	Fields []Fold
	Reduce *Reduce
	// Emit is on_update, on_close or every; EmitEvery is the span of the last one.
	Emit      string
	EmitEvery time.Duration
	// SkipUnchanged leaves out results that are the same as before.
	SkipUnchanged bool
	Grace         time.Duration
	// Lateness is how long a closed window still takes late records.
	Lateness time.Duration
	// TTL is how long a key without windows of time is kept; 0 is for ever.
	TTL time.Duration
	// Late is dlq, drop or topic; LateTopic is set for topic.
	Late      string
	LateTopic string
	Store     string
}

// Fold is one field of the result. Func is an aggregator of the language. Arg is nil for count; a
// null argument is not counted by the others.
type Fold struct {
	Name string
	Func string
	Arg  *expression.Program
	// Of is what topk shows; nil is Arg.
	Of *expression.Program
	// Limit is how many values topk and collect keep.
	Limit int
	// ByOffset: first and last go by the order of processing.
	ByOffset bool
}

// Reduce makes the value by expressions. Init and Update see the record and acc; Merge, of
// MergeSet, sees acc and other, and is nil where nothing is merged.
type Reduce struct {
	Init, Update, Merge *expression.Program
	MergeSet            *expression.Set
}

// Gate holds records back: duplicates of a key within a span of time (dedupe), or those above
// Count of a key per span of time (throttle).
type Gate struct {
	Count  int64
	Within time.Duration
	// Keyed: by the record's key; else by task.
	Keyed bool
	// ToDLQ: what is held back is a failure of class throttled.
	ToDLQ bool
	Store string
}

func (b *builder) aggregate(s *check.Step) *Aggregate {
	t := s.Group
	a := &Aggregate{
		Emit: t.Emit.Or("on_update"), EmitEvery: t.Emit.Every.Value, Grace: t.Grace.Value,
		SkipUnchanged: !t.EmitUnchanged.Or(true), Lateness: t.Late.Update.Value,
		TTL: t.TTL.Value, Late: s.LateAction, LateTopic: string(t.Late.Topic.Value),
		Store: b.name(s.ID, "store"),
	}
	if w := t.Window; w != nil {
		a.Offset = w.Offset.Value
		switch {
		case w.Hopping != nil:
			a.Window, a.Size, a.Every = Hopping, w.Hopping.Size.Value, w.Hopping.Every.Value
		case w.Session.Set:
			a.Window, a.Size = Session, w.Session.Value
		case w.Sliding.Set:
			a.Window, a.Size = Sliding, w.Sliding.Value
		case w.Count.Set:
			a.Window, a.Count = CountOf, w.Count.Value
		default:
			a.Window, a.Size, a.Every = Tumbling, w.Tumbling.Value, w.Tumbling.Value
		}
	}
	for _, f := range s.Folds {
		a.Fields = append(a.Fields, Fold(f))
	}
	if r := s.Reduce; r != nil {
		reduce := Reduce(*r)
		a.Reduce = &reduce
	}
	return a
}

// programs are those of the folds.
func (a *Aggregate) programs(add func(*expression.Program)) {
	for _, f := range a.Fields {
		add(f.Arg)
		add(f.Of)
	}
	if a.Reduce != nil {
		add(a.Reduce.Init)
		add(a.Reduce.Update)
		add(a.Reduce.Merge)
	}
}

// action is all an aggregate does, as text.
func (a *Aggregate) action() string {
	return fmt.Sprint(windowText(a), foldText(a), a.Emit, a.EmitEvery, a.SkipUnchanged, a.Grace,
		a.Lateness, a.TTL, a.Late, a.LateTopic)
}

func windowText(a *Aggregate) string {
	switch a.Window {
	case Tumbling, Hopping:
		return fmt.Sprint(a.Size, a.Every, a.Offset)
	}
	return fmt.Sprint(a.Window, a.Size, a.Count)
}

func foldText(a *Aggregate) string {
	var b strings.Builder
	for _, f := range a.Fields {
		fmt.Fprintf(&b, "%q=%s(%s)", f.Name, f.Func, signature(f.Arg))
		if f.Of != nil || f.ByOffset || f.Func == "collect" || f.Func == "topk" {
			fmt.Fprintf(&b, "%s,%d,%t", signature(f.Of), f.Limit, f.ByOffset)
		}
		b.WriteString(";")
	}
	if r := a.Reduce; r != nil {
		fmt.Fprintf(&b, "reduce %s %s %s;", signature(r.Init), signature(r.Update),
			signature(r.Merge))
	}
	return b.String()
}

// emitText says when results come out.
func (a *Aggregate) emitText() string {
	emit := map[string]string{"on_update": "on update", "on_close": "on close",
		EmitEvery: "every " + span(a.EmitEvery)}[a.Emit]
	if a.SkipUnchanged {
		emit += " if changed"
	}
	return emit
}

// text is an aggregate in a few words.
func (a *Aggregate) text(from string) string {
	window := string(a.Window) + " " + span(a.Size)
	switch a.Window {
	case NoWindow:
		window = "all records of a key"
	case Hopping:
		window = fmt.Sprintf("hopping %s every %s", span(a.Size), span(a.Every))
	case Session:
		window = "sessions with gaps up to " + span(a.Size)
	case CountOf:
		window = fmt.Sprintf("windows of %d records", a.Count)
	}
	emit := a.emitText()
	if a.Window == NoWindow || a.Window == CountOf {
		kept := "kept for ever"
		if a.TTL > 0 {
			kept = "kept for " + span(a.TTL)
		}
		return fmt.Sprintf("%s: %s, %s, keys %s", from, window, emit, kept)
	}
	late := a.Late
	if a.LateTopic != "" {
		late = "topic " + a.LateTopic
	}
	if a.Lateness > 0 {
		late = fmt.Sprintf("update for %s, then %s", span(a.Lateness), late)
	}
	return fmt.Sprintf("%s: %s, grace %s, %s, late: %s", from, window, span(a.Grace), emit, late)
}

// text is a gate in a few words.
func (g *Gate) text(from string, kind Kind) string {
	if kind == KindDedupe {
		return fmt.Sprintf("%s: first of each key within %s", from, span(g.Within))
	}
	whose := "key"
	if !g.Keyed {
		whose = "partition"
	}
	over := "drop"
	if g.ToDLQ {
		over = "dlq"
	}
	return fmt.Sprintf("%s: %d per %s and %s, over: %s", from, g.Count, span(g.Within), whose, over)
}
