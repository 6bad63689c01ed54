package plan

import "slices"

// apart moves the right rows of a join by a foreign key through a topic of their own where both
// sides would be in one task: tables of one source, or two that another step joins by key. A task
// cannot wait for itself.
func (b *builder) apart() {
	for b.moveOne() {
	}
}

// moveOne does that for one join, and tells whether there was one.
func (b *builder) moveOne() bool {
	d := b.domains()
	for _, n := range b.plan.Nodes {
		if n.Join == nil || n.Join.Tables == nil || !n.Join.Tables.Foreign {
			continue
		}
		match := b.plan.Node(n.ID + ".match")
		if match.Right == n.ID+".right" || d.find("node "+n.ID+".ask") != d.find("node "+match.ID) {
			continue
		}
		match.Right = b.moved(n, b.stepOf(n.ID), "right", nil, match.Right)
		last := len(b.plan.Nodes) - 1
		moved := b.plan.Nodes[last]
		ask := slices.Index(b.plan.Nodes, b.plan.Node(n.ID+".ask"))
		b.plan.Nodes = slices.Insert(b.plan.Nodes[:last], ask, moved)
		return true
	}
	return false
}

// domains finds what is connected without passing a topic.
func (b *builder) domains() domains {
	d := domains{}
	for _, n := range b.plan.Nodes {
		for _, from := range n.Inputs() {
			d.join(b.outOf(from), "node "+n.ID)
		}
	}
	for _, s := range b.plan.Sinks {
		d.join(b.outOf(s.From), "sink "+s.ID)
	}
	return d
}
