package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Graph is the plan as boxes and arrows, in the order records flow.
type Graph struct {
	Name  string
	Boxes []Box
	Edges []Edge
}

// Box is a source, table, step or sink.
type Box struct {
	ID string
	// Shape is source, table, step or sink.
	Shape string
	// Title is the id, Note what it does in a few words.
	Title, Note string
	// Part is the sub-topology, -1 for what is outside.
	Part int
}

// Edge is a stream from one box to another. Label is the way out of a branch.
type Edge struct{ From, To, Label string }

// Graph draws the plan.
func (p *Plan) Graph() *Graph {
	g := &Graph{Name: p.Pipeline}
	arms := map[string]string{} // arm -> the branch it leaves
	for _, s := range p.Sources {
		if s.TableOnly {
			continue
		}
		note := "topic " + s.Topic
		if s.Connector != nil {
			note = "connector " + s.Connector.Name
		}
		g.Boxes = append(g.Boxes, Box{"source:" + s.ID, "source", s.ID, note, -1})
		arms[s.ID] = "source:" + s.ID
	}
	for _, t := range p.Tables {
		if !p.lookedUp(t.ID) {
			continue // its rows are read like a stream's
		}
		g.Boxes = append(g.Boxes, Box{"table:" + t.ID, "table", t.ID, "topic " + t.Topic, -1})
	}
	link := func(from, to string) {
		box, label := arms[from], ""
		if box == "" {
			box = "step:" + from
		} else if strings.HasPrefix(box, "step:") {
			label = from
		}
		g.Edges = append(g.Edges, Edge{box, to, label})
	}
	for _, n := range p.Nodes {
		id := "step:" + n.ID
		_, note, _ := strings.Cut(n.text(), ": ")
		if n.Kind != KindFilter && n.Kind != KindKeyBy && n.Kind != KindAggregate {
			note = ""
		}
		note = strings.TrimSpace(string(n.Kind) + " " + note)
		g.Boxes = append(g.Boxes, Box{id, "step", n.ID, note, n.Sub})
		for _, from := range n.Inputs() {
			link(from, id)
		}
		if n.looksUp() {
			g.Edges = append(g.Edges, Edge{"table:" + n.Join.Table, id, ""})
		}
		for _, a := range n.Arms {
			arms[a.ID] = id
		}
	}
	for _, s := range p.Sinks {
		note := "topic " + s.Topic
		if s.Connector != nil {
			note = "connector " + s.Connector.Name
		}
		g.Boxes = append(g.Boxes, Box{"sink:" + s.ID, "sink", s.ID, note, -1})
		link(s.From, "sink:"+s.ID)
	}
	return g
}

// lookedUp tells whether a join reads a table's rows as they arrive.
func (p *Plan) lookedUp(table string) bool {
	return slices.ContainsFunc(p.Nodes, func(n *Node) bool {
		return n.looksUp() && n.Join.Table == table
	})
}

// names gives every box a short name that any notation takes.
func (g *Graph) names() map[string]string {
	names := map[string]string{}
	for i, b := range g.Boxes {
		names[b.ID] = fmt.Sprintf("n%d", i)
	}
	return names
}

// DOT is the graph for Graphviz.
func (g *Graph) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR\n", g.Name)
	b.WriteString("  node [shape=box fontname=sans fontsize=11]\n")
	names, shapes := g.names(), map[string]string{"source": "cds", "table": "cylinder",
		"step": "box", "sink": "cds"}
	part := -1
	for _, x := range g.Boxes {
		if x.Part != part {
			if part >= 0 {
				b.WriteString("  }\n")
			}
			if part = x.Part; part >= 0 {
				fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=\"part %d\"\n", part, part)
			}
		}
		fmt.Fprintf(&b, "  %s [shape=%s label=%q]\n", names[x.ID], shapes[x.Shape],
			x.Title+"\n"+x.Note)
	}
	if part >= 0 {
		b.WriteString("  }\n")
	}
	for _, e := range g.Edges {
		label := ""
		if e.Label != "" {
			label = fmt.Sprintf(" [label=%q]", e.Label)
		}
		fmt.Fprintf(&b, "  %s -> %s%s\n", names[e.From], names[e.To], label)
	}
	return b.String() + "}\n"
}

// Mermaid is the graph for Markdown pages.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	names := g.names()
	shapes := map[string][2]string{"source": {"([", "])"}, "table": {"[(", ")]"},
		"step": {"[", "]"}, "sink": {"([", "])"}}
	// Mermaid ends a text at a quote, and reads some signs as markup.
	escape := strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;")
	for _, x := range g.Boxes {
		s := shapes[x.Shape]
		fmt.Fprintf(&b, "  %s%s\"%s<br/>%s\"%s\n", names[x.ID], s[0], escape.Replace(x.Title),
			escape.Replace(x.Note), s[1])
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Label != "" {
			arrow = "-->|" + e.Label + "|"
		}
		fmt.Fprintf(&b, "  %s %s %s\n", names[e.From], arrow, names[e.To])
	}
	return b.String()
}

// Sizes of the picture, in pixels.
const (
	boxWide, boxHigh = 210, 46
	gapWide, gapHigh = 60, 24
	margin           = 20
	noteRunes        = 32 // what fits in a box
)

// SVG is the graph as a picture: a column per step of the way, boxes in the order of the file.
func (g *Graph) SVG() string {
	column, columns := g.columns()
	row, rows := map[string]int{}, make([]int, columns)
	for _, x := range g.Boxes {
		c := column[x.ID]
		row[x.ID] = rows[c]
		rows[c]++
	}
	at := func(id string) (x, y int) {
		return margin + column[id]*(boxWide+gapWide), margin + row[id]*(boxHigh+gapHigh)
	}
	var b strings.Builder
	wide := 2*margin + columns*(boxWide+gapWide) - gapWide
	high := 2*margin + slices.Max(append(rows, 1))*(boxHigh+gapHigh) - gapHigh
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&b, "<title>%s</title>\n", xmlText(g.Name))
	for _, e := range g.Edges {
		x1, y1 := at(e.From)
		x2, y2 := at(e.To)
		x1, y1, y2 = x1+boxWide, y1+boxHigh/2, y2+boxHigh/2
		fmt.Fprintf(&b, `<path d="M%d %d C%d %d %d %d %d %d" fill="none" stroke="#888"/>`+"\n",
			x1, y1, x1+gapWide/2, y1, x2-gapWide/2, y2, x2, y2)
		if e.Label != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="10" fill="#555">%s</text>`+"\n",
				x1+4, (y1+y2)/2-4, xmlText(e.Label))
		}
	}
	fills := map[string]string{"source": "#e3f1e3", "table": "#fdf3d8", "step": "#eef2f8",
		"sink": "#f6e6e6"}
	for _, box := range g.Boxes {
		x, y := at(box.ID)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" `+
			`stroke="#667"/>`+"\n", x, y, boxWide, boxHigh, fills[box.Shape])
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x+8, y+18,
			xmlText(shortened(box.Title)))
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="10" fill="#445">%s<title>%s</title></text>`+
			"\n", x+8, y+35, xmlText(shortened(box.Note)), xmlText(box.Note))
	}
	return b.String() + "</svg>\n"
}

// columns gives every box the length of the longest way to it.
func (g *Graph) columns() (column map[string]int, count int) {
	column, count = map[string]int{}, 1
	for range g.Boxes { // boxes are in order, but a branch may be read further up in the file
		moved := false
		for _, e := range g.Edges {
			if c := column[e.From] + 1; c > column[e.To] {
				column[e.To], moved = c, true
				count = max(count, c+1)
			}
		}
		if !moved {
			break
		}
	}
	return column, count
}

func shortened(s string) string {
	if utf8.RuneCountInString(s) <= noteRunes {
		return s
	}
	return string([]rune(s)[:noteRunes-1]) + "…"
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
