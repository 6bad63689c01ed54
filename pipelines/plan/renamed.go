package plan

import (
	"fmt"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// renamedFrom returns the first of the earlier ids of a source, step or table, which is the last in
// the list: what it has stored has that name. It refuses lists that say nothing, and ids that
// somebody else has or had.
func (b *builder) renamedFrom(kind, id string, list []lang.Name) string {
	if len(list) == 0 {
		return ""
	}
	seen := map[string]bool{id: true}
	for _, x := range list {
		was := string(x.Value)
		if seen[was] {
			b.findings = append(b.findings, lang.Finding{File: x.Pos.File, Line: x.Pos.Line,
				Col: x.Pos.Col, Width: len(was), Code: check.CodeDuplicateID, Severity: lang.Error,
				Message: fmt.Sprintf("%s %q was renamed from %q, which it is called already", kind, id, was),
				Hint:    "renamed_from: has each earlier id once, the first one last"})
			return ""
		}
		seen[was] = true
	}
	last := list[len(list)-1]
	was, what := string(last.Value), fmt.Sprintf("%s %q, which was renamed", kind, id)
	space := "stream " // sources and steps are both read by id
	if kind == "table" {
		space = "table "
	}
	if b.first == nil {
		b.first = map[string]bool{}
	}
	if b.first[space+was] || b.has(kind, was) {
		b.refuseID(last.Pos, was, what)
	}
	b.first[space+was] = true
	return was
}

// has tells whether the file has something that is stored under an id.
func (b *builder) has(kind, id string) bool {
	if kind == "table" {
		for _, t := range b.in.Tables {
			if t.ID == id {
				return true
			}
		}
		return false
	}
	for _, s := range b.in.Sources {
		if s.ID == id {
			return true
		}
	}
	return b.stepOf(id) != nil
}

// lostNames finds sources whose tasks get another name without a word: they would look for their
// state and positions where there are none.
func (d *Difference) lostNames(running, wanted *Plan) {
	parts := func(p *Plan) map[string]*SubTopology {
		byTopic := map[string]*SubTopology{}
		for _, sub := range p.SubTopologies {
			for _, topic := range sub.Topics {
				byTopic[topic] = sub
			}
		}
		return byTopic
	}
	before, after := parts(running), parts(wanted)
	told := map[string]bool{}
	for _, s := range wanted.Sources {
		was, now := before[s.Topic], after[s.Topic]
		if s.TableOnly || was == nil || now == nil || was.Name == now.Name || told[was.Name] {
			continue
		}
		told[was.Name] = true
		why := fmt.Sprintf("positions and state are stored under %s, its tasks would be called %s",
			was.Name, now.Name)
		if s.ID == now.Name && wanted.Source(was.Name) == nil {
			why += "; if it is what " + was.Name + " was: renamed_from: " + was.Name
		}
		d.add(Change{"source", s.ID, StateReset, "~", why})
	}
}
