package plan

import "github.com/millstream-io/millstream/pipelines/expression"

// guarantees says, for each sink, what a crash can do to it, and how deterministic the plan is.
// Without transactions a task drops what it wrote before a crash by the sequence in its records'
// headers; that is exact as long as it produces the same records again.
func (b *builder) guarantees() {
	p := b.plan
	p.Determinism = DeterminismA
	for _, t := range p.SubTopologies {
		if len(t.Topics)+len(t.Tables) > 1 {
			p.Determinism = DeterminismB
		}
	}
	impure := map[string]string{} // by source, node or arm: why what comes out may differ
	for _, s := range p.Sources {
		if !s.Deterministic {
			impure[s.ID] = "connector " + s.Connector.Name + " may not read the same again"
			p.Determinism = DeterminismD
		}
	}
	for _, n := range p.Nodes {
		why := ""
		for _, from := range n.Inputs() {
			if impure[from] != "" {
				why = impure[from]
			}
		}
		if c := clock(n.programs()); c != "" {
			n.Deterministic, why = false, "step "+n.ID+" looks at the clock"
		}
		if n.Kind == KindPlugin && !n.Deterministic {
			why = "the plugin of step " + n.ID + " is not deterministic"
		}
		if n.KeyBy != nil && p.Determinism == DeterminismA {
			p.Determinism = DeterminismB
		}
		impure[n.ID] = why
		for _, a := range n.Arms {
			impure[a.ID] = why
		}
		if why != "" {
			p.Determinism = DeterminismD
		}
	}
	for _, s := range p.Sinks {
		why := impure[s.From]
		if clock(s.programs()) != "" {
			why = "its expressions look at the clock"
			p.Determinism = DeterminismD
		}
		s.Guarantee = guarantee(s, why)
	}
}

func guarantee(s *Sink, impure string) string {
	switch {
	case impure != "":
		return "at least once (" + impure + ")"
	case s.Connector == nil:
		return "effectively once (writer sequence)"
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
