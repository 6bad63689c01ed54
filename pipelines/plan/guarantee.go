package plan

import "github.com/millstream-io/millstream/pipelines/expression"

// guarantees says, for each sink, what a crash can do to it, and how deterministic the plan is. All
// that a task writes is one transaction with its state and its position, so that nothing it does
// can come out twice; only a connector that reads or writes again can.
func (b *builder) guarantees() {
	p := b.plan
	p.Determinism = DeterminismA
	for _, t := range p.SubTopologies {
		if len(t.Topics)+len(t.Tables) > 1 {
			p.Determinism = DeterminismB
		}
	}
	rereads := map[string]string{} // by source, node or arm: why a record may come twice
	for _, s := range p.Sources {
		if !s.Deterministic {
			rereads[s.ID] = "connector " + s.Connector.Name + " may not read the same again"
			p.Determinism = DeterminismD
		}
	}
	for _, n := range p.Nodes {
		why := ""
		for _, from := range n.Inputs() {
			if rereads[from] != "" {
				why = rereads[from]
			}
		}
		rereads[n.ID] = why
		for _, a := range n.Arms {
			rereads[a.ID] = why
		}
		if clock(n.programs()) != "" {
			n.Deterministic = false
		}
		switch {
		case n.looksUp():
			p.Determinism = DeterminismD // a row is there or not by when it arrived
		case !n.Deterministic && (n.Kind == KindPlugin || clock(n.programs()) != ""):
			p.Determinism = DeterminismD
		case n.KeyBy != nil && p.Determinism == DeterminismA:
			p.Determinism = DeterminismB
		}
	}
	for _, s := range p.Sinks {
		if clock(s.programs()) != "" {
			p.Determinism = DeterminismD
		}
		s.Guarantee = guarantee(s, rereads[s.From])
	}
}

func guarantee(s *Sink, rereads string) string {
	switch {
	case rereads != "":
		return "at least once (" + rereads + ")"
	case s.Connector == nil:
		return "exactly once (transactions)"
	case s.Exact:
		return "effectively once (connector " + s.Connector.Name + " resumes exactly)"
	case !s.Known:
		return "at least once, unless connector " + s.Connector.Name + " resumes exactly"
	}
	return "at least once (connector " + s.Connector.Name + " cannot resume exactly)"
}

// clock returns the source of a program that looks at the clock, or "".
func clock(programs []*expression.Program) string {
	for _, p := range programs {
		if !p.Deterministic() {
			return p.Source()
		}
	}
	return ""
}
