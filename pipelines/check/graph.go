package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// endpoint is something from: may name.
type endpoint struct {
	at     lang.Pos
	what   string // source, step, branch or table
	source *Source
	step   *Step
	table  *Table
	arm    int // index in step.Arms, -1 for the step's own output
}

// stream is what flows out of an endpoint, nil while it is not known.
func (e *endpoint) stream() *Stream {
	switch {
	case e.source != nil:
		return e.source.Out
	case e.step == nil:
		return nil // a table: see checker.stream
	case e.arm >= 0:
		return e.step.Arms[e.arm].Out
	}
	return e.step.Out
}

// stream is what flows out of the endpoint with an id, nil while it is not known.
func (c *checker) stream(id string) *Stream {
	e := c.names[id]
	if e.table != nil {
		return c.tableStream(e.table)
	}
	return e.stream()
}

// read counts a reader of the endpoint with an id.
func (c *checker) read(id string) {
	if e := c.names[id]; e.table != nil {
		c.readTable(e.table)
	} else {
		e.read()
	}
}

func (e *endpoint) read() {
	switch {
	case e.source != nil:
		e.source.Streamed = true
	case e.arm >= 0:
		e.step.Arms[e.arm].readers++
	default:
		e.step.readers++
	}
}

// declare gives an id to an endpoint; an id is unique among sources, steps and branches.
func (c *checker) declare(id string, e *endpoint) {
	if have, dup := c.names[id]; dup {
		c.report(e.at, len(id), CodeDuplicateID, fmt.Sprintf("the id %q is taken", id),
			fmt.Sprintf("the %s of line %d has it", have.what, have.at.Line))
		return
	}
	c.names[id] = e
}

// steps names all steps, resolves what they read and returns the order records flow in.
func (c *checker) steps() []int {
	steps := c.tree.Steps.Items
	counts := map[string]int{}
	for i := range steps {
		t := &steps[i]
		s := &Step{Tree: t, ID: string(t.ID.Value), Named: t.ID.Set}
		c.result.Steps = append(c.result.Steps, s)
		if s.Named {
			c.declare(s.ID, &endpoint{at: t.ID.Pos, what: "step", step: s, arm: -1})
		}
		for j := range t.Branch.Items {
			arm := &t.Branch.Items[j]
			s.Arms = append(s.Arms, Arm{tree: arm})
			if arm.As.Set {
				c.declare(string(arm.As.Value),
					&endpoint{at: arm.As.Pos, what: "branch", step: s, arm: j})
			}
		}
	}
	for i, s := range c.result.Steps { // after all given ids are known
		if !s.Named {
			s.ID = c.anonymous(s, counts)
			c.names[s.ID] = &endpoint{at: s.Tree.Pos, what: "step", step: s, arm: -1}
		}
		c.inputs(i, s)
	}
	return c.order()
}

// anonymous names a step without id by its operator and how many came before it.
func (c *checker) anonymous(s *Step, counts map[string]int) string {
	operator := s.Tree.Operator
	if operator == "" {
		operator = "step"
	}
	for {
		counts[operator]++
		id := fmt.Sprintf("%s-%d", strings.ReplaceAll(operator, "_", "-"), counts[operator])
		if _, taken := c.names[id]; !taken {
			return id
		}
	}
}

// inputs resolves from: of step i, the step before it if absent.
func (c *checker) inputs(i int, s *Step) {
	if j := s.Tree.Join; j != nil && j.Stream.Set && c.resolve(j.Stream) {
		s.Other = string(j.Stream.Value)
	}
	if j := s.Tree.Join; j != nil && j.Table.Set {
		for _, t := range c.result.Tables {
			if t.ID == string(j.Table.Value) && t.Step != "" && c.resolve(t.Tree.From) {
				s.Other = t.Step
			}
		}
	}
	reads := &s.Tree.From
	if s.Tree.Operator == "merge" {
		reads = &s.Tree.Merge
	}
	for _, f := range reads.Items {
		if !f.Set {
			continue
		}
		if c.resolve(f) && !slices.Contains(s.From, string(f.Value)) {
			s.From = append(s.From, string(f.Value))
		}
	}
	if reads.Pos.IsSet() {
		return
	}
	if i == 0 {
		s.From = c.onlySource(s.Tree.Pos, "the first step")
		return
	}
	before := c.result.Steps[i-1]
	if len(before.Arms) > 0 {
		c.report(s.Tree.Pos, 1, CodeNoInput, "the step before is a branch; say which way to read",
			"add  from: "+armNames(before))
		return
	}
	if before.Tree.Operator == "route" {
		c.report(s.Tree.Pos, 1, CodeNoInput, "the step before is a route, nothing comes out of it",
			"add  from: "+strings.Join(before.From, " or "))
		return
	}
	s.From = []string{before.ID}
	c.read(before.ID)
}

func armNames(s *Step) string {
	var names []string
	for _, a := range s.Arms {
		names = append(names, string(a.tree.As.Value))
	}
	return strings.Join(names, " or ")
}

// onlySource is the one source that is not only there for a table.
func (c *checker) onlySource(at lang.Pos, who string) []string {
	var ids []string
	for _, s := range c.result.Sources {
		if !slices.ContainsFunc(c.result.Tables, func(t *Table) bool { return t.From == s }) {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) != 1 {
		hint := "declare a source"
		if len(ids) > 1 {
			hint = "add  from: " + strings.Join(ids, " or ")
		}
		if len(c.result.Sources) > 0 {
			c.report(at, 1, CodeNoInput, who+" needs from:", hint)
		}
		return nil
	}
	c.read(ids[0])
	return ids
}

// resolve checks that from: names something, and counts the reader.
func (c *checker) resolve(f lang.Name) bool {
	id := string(f.Value)
	if e := c.names[id]; e != nil && e.step != nil && e.step.Tree.Operator == "route" {
		c.report(f.Pos, len(id), CodeUnknownFrom,
			fmt.Sprintf("%q is a route, nothing comes out of it", id), "read what the route reads")
		return false
	}
	if e, ok := c.names[id]; ok && (e.step == nil || e.arm >= 0 || len(e.step.Arms) == 0) {
		c.read(id)
		return true
	} else if ok {
		c.report(f.Pos, len(id), CodeUnknownFrom,
			fmt.Sprintf("%q is a branch; say which way to read", id), "one of "+armNames(e.step))
		return false
	}
	var known []string
	for name := range c.names {
		known = append(known, name)
	}
	slices.Sort(known)
	hint := ""
	if near := lang.Nearest(id, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if slices.Contains(c.tree.Tables.Keys(), id) {
		hint = "a table that is called as what fills it is read with join:; give it a name of its own"
	}
	c.report(f.Pos, len(id), CodeUnknownFrom,
		fmt.Sprintf("there is no source, step or branch %q", id), hint)
	return false
}

// order sorts steps so that every step comes after what it reads, in file order where that leaves
// a choice. A circle is reported at its first step, and broken there.
func (c *checker) order() []int {
	index := map[*Step]int{}
	for i, s := range c.result.Steps {
		index[s] = i
	}
	const visiting, done = 1, 2
	state := make([]int, len(c.result.Steps))
	var order []int
	var visit func(i int)
	visit = func(i int) {
		s := c.result.Steps[i]
		state[i] = visiting
		circular := func(id string) bool {
			up := c.names[id].step
			if t := c.names[id].table; t != nil && c.names[t.Step] != nil {
				up = c.names[t.Step].step
			}
			if up == nil || state[index[up]] == done {
				return false
			}
			if state[index[up]] == visiting {
				c.report(s.Tree.Pos, 1, CodeCycle,
					fmt.Sprintf("step %q reads what comes out of itself, through %q", s.ID, id),
					"a pipeline cannot run in a circle")
				return true
			}
			visit(index[up])
			return false
		}
		s.From = slices.DeleteFunc(s.From, circular)
		if s.Other != "" && circular(s.Other) {
			s.Other = ""
		}
		state[i] = done
		order = append(order, i)
	}
	for i := range c.result.Steps {
		if state[i] == 0 {
			visit(i)
		}
	}
	return order
}

// unused warns of what is declared and leads nowhere.
func (c *checker) unused() {
	for _, s := range c.result.Sources {
		if !s.Streamed && !s.TableOnly {
			c.report(c.names[s.ID].at, len(s.ID), CodeUnusedSource,
				fmt.Sprintf("nothing reads the source %q", s.ID), "")
		}
	}
	for i, t := range c.result.Tables {
		if !t.used {
			c.report(c.tree.Tables.Entries[i].At, len(t.ID), CodeUnusedSource,
				fmt.Sprintf("nothing reads the table %q", t.ID), "")
		}
	}
	for _, s := range c.result.Steps {
		at, width := s.Tree.Pos, 1
		if s.Named {
			at, width = s.Tree.ID.Pos, len(s.ID)
		}
		if len(s.Arms) == 0 && s.readers == 0 && s.Tree.Operator != "log" &&
			s.Tree.Operator != "route" && s.Tree.Operator != "" {
			c.report(at, width, CodeUnusedStep,
				fmt.Sprintf("nothing reads the step %q", s.ID), "add a sink:  from: "+s.ID)
		}
		for _, a := range s.Arms {
			if a.readers == 0 && a.tree.As.Set {
				id := string(a.tree.As.Value)
				c.report(a.tree.As.Pos, len(id), CodeUnusedBranch,
					fmt.Sprintf("nothing reads the branch %q", id), "add a sink:  from: "+id)
			}
		}
	}
	for _, e := range c.tree.Plugins.Entries {
		if !c.pluginUses[e.Key] && e.At.File == c.tree.File.Name() { // not one that others share
			c.report(e.At, len(e.Key), CodeUnusedPlugin,
				fmt.Sprintf("no step uses the plugin %q", e.Key), "")
		}
	}
	if c.dlqUses == 0 {
		for _, d := range c.dlqMaybeUnused {
			c.report(d.Pos, len(d.Value), CodeUnusedDLQ,
				"no policy leads to this dead-letter topic", "say  then: dlq")
		}
	}
}

// loops finds topics that are read and written. A connector writes its source's topic.
func (c *checker) loops() {
	read := map[string]bool{}
	for _, s := range c.result.Sources {
		if t := s.Tree.Topic; read[s.Topic] && t.Set {
			c.report(t.Pos, len(t.Value), CodeSameTopic,
				fmt.Sprintf("another source reads the topic %q already", t.Value),
				"let several steps read one source:  from: id")
		}
		read[s.Topic] = true
	}
	for _, t := range c.result.Tables {
		if t.Step != "" {
			continue
		}
		if at := t.Tree.Topic; read[t.Topic] && at.Set {
			c.report(at.Pos, len(at.Value), CodeSameTopic,
				fmt.Sprintf("a source or table reads the topic %q already", at.Value),
				"name it:  from: source")
		}
		read[t.Topic] = true
	}
	check := func(t lang.TopicName) {
		if t.Set && read[string(t.Value)] {
			c.report(t.Pos, len(t.Value), CodeTopicLoop,
				fmt.Sprintf("the pipeline reads the topic %q, so it cannot write it", t.Value), "")
		}
	}
	for i := range c.tree.Sinks.Entries {
		check(c.tree.Sinks.Entries[i].Value.Topic)
	}
	for i := range c.tree.Steps.Items {
		if a := c.tree.Steps.Items[i].Aggregate; a != nil {
			check(a.Late.Topic)
		}
		if r := c.tree.Steps.Items[i].Reduce; r != nil {
			check(r.Late.Topic)
		}
		if j := c.tree.Steps.Items[i].Join; j != nil {
			check(j.Late.Topic)
		}
	}
	if c.tree.OnError != nil {
		check(c.tree.OnError.DLQ)
	}
}
