package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Class is what a change does to a running pipeline.
type Class int

// The classes, mildest first.
const (
	// Same: nothing changes.
	Same Class = iota
	// DrainRestart: tasks finish what they have, commit, and start anew at their positions.
	DrainRestart
	// StateReset: stored state could not be used any more. Workers refuse it; applied under another
	// name it starts with none.
	StateReset
)

// String is the class as the plan's text has it.
func (c Class) String() string {
	return [...]string{"no change", "drain and restart", "loses state"}[c]
}

// MarshalText is String, for JSON.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Change is what happens to one part.
type Change struct {
	// Part is source, table, step, sink or plugin.
	Part  string `json:"part"`
	ID    string `json:"id"`
	Class Class  `json:"class"`
	// Sign is + for added, - for removed and ~ for changed.
	Sign string `json:"sign"`
	Why  string `json:"why"`
}

// Difference is what separates two plans.
type Difference struct {
	Changes []Change
	Class   Class
	// Hash names this very step from one plan to the other: apply refuses another one.
	Hash string
	// fresh: there was no plan before.
	fresh bool
}

// part is what Diff compares of one source, table, node, sink or plugin.
type part struct {
	kind, id, print, state string
	// was is the id it had first, "" if it has always been id.
	was  string
	node *Node
}

// Diff compares what runs with what is wanted. running is nil for a new pipeline.
func Diff(running, wanted *Plan) *Difference {
	d := &Difference{fresh: running == nil}
	before := map[string]part{}
	old := "none"
	if running != nil {
		before = parts(running)
		old = running.Fingerprint
	}
	d.Hash = digest(old, wanted.Fingerprint)[:16]
	after := parts(wanted)
	for _, key := range sortedIDs(after) {
		now := after[key]
		was, ok := before[key]
		switch {
		case !ok:
			d.add(Change{now.kind, now.id, DrainRestart, "+", "new"})
		case was.id != now.id || was.print != now.print || was.state != now.state:
			class, why := compare(was, now)
			d.add(Change{now.kind, now.id, class, "~", why})
		}
	}
	for _, key := range sortedIDs(before) {
		was := before[key]
		if _, ok := after[key]; ok {
			continue
		}
		class, why := DrainRestart, "removed"
		if was.state != "" {
			class, why = StateReset, "removed; what it stored is lost"
		}
		d.add(Change{was.kind, was.id, class, "-", why})
	}
	if running != nil {
		d.lostNames(running, wanted)
	}
	if running != nil && len(d.Changes) == 0 && old != wanted.Fingerprint {
		d.add(Change{"pipeline", wanted.Pipeline, DrainRestart, "~", "resources"})
	}
	return d
}

func (d *Difference) add(c Change) {
	d.Changes = append(d.Changes, c)
	d.Class = max(d.Class, c.Class)
}

func parts(p *Plan) map[string]part {
	out := map[string]part{}
	add := func(x part) { out[x.kind+" "+cmp.Or(x.was, x.id)] = x }
	for _, s := range p.Sources {
		add(part{kind: "source", id: s.ID, was: s.Was, print: s.Fingerprint})
	}
	for _, t := range p.Tables {
		add(part{kind: "table", id: t.ID, was: t.Was, print: t.Fingerprint, state: t.Fingerprint})
	}
	for _, n := range p.Nodes {
		add(part{kind: "step", id: n.ID, was: n.Was, print: n.Fingerprint, state: n.State, node: n})
	}
	for _, s := range p.Sinks {
		add(part{kind: "sink", id: s.ID, print: s.Fingerprint})
	}
	for _, x := range p.Plugins {
		add(part{kind: "plugin", id: x.Alias, print: digest(x.Source, x.Memory)})
	}
	return out
}

// compare says what a change of one part needs.
func compare(was, now part) (Class, string) {
	if was.state != now.state && now.kind == "table" {
		return StateReset, "its topic, source or formats changed; what is stored are rows of before"
	}
	if was.state != now.state {
		return StateReset, "what is stored depends on the changed keys, window or fields"
	}
	if was.id != now.id {
		return DrainRestart, "was " + was.id + "; what it stored is kept"
	}
	if was.node == nil {
		return DrainRestart, "changed"
	}
	a, b := was.node, now.node
	switch {
	case a.Kind != b.Kind:
		return DrainRestart, fmt.Sprintf("%s becomes %s", a.Kind, b.Kind)
	case !slices.Equal(a.Inputs(), b.Inputs()):
		return DrainRestart, "reads " + strings.Join(b.Inputs(), ", ")
	case !slices.EqualFunc(a.Arms, b.Arms, func(x, y Arm) bool { return x.ID == y.ID }):
		return DrainRestart, "other branches"
	}
	switch b.Kind {
	case KindFilter, KindMap, KindPatch, KindFlatMap, KindBranch, KindLog, KindRoute:
		return DrainRestart, "expressions or policy"
	}
	return DrainRestart, "settings"
}

// String lists the changes, one a line, and what they do together.
func (d *Difference) String() string {
	if len(d.Changes) == 0 {
		return "no change\n"
	}
	var b strings.Builder
	if d.fresh { // nothing is drained or restarted
		for _, c := range d.Changes {
			fmt.Fprintf(&b, "%s %-6s %s\n", c.Sign, c.Part, c.ID)
		}
		fmt.Fprintf(&b, "together: new   plan %s\n", d.Hash)
		return b.String()
	}
	for _, c := range d.Changes {
		fmt.Fprintf(&b, "%s %-6s %-20s %-17s %s\n", c.Sign, c.Part, c.ID, c.Class, c.Why)
	}
	fmt.Fprintf(&b, "together: %s   plan %s\n", d.Class, d.Hash)
	return b.String()
}
