package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// digest hashes parts so that no two lists of parts give the same bytes.
func digest(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		text := fmt.Sprint(p)
		fmt.Fprintf(h, "%d:%s;", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func signature(p *expression.Program) string {
	if p == nil {
		return "-"
	}
	return p.Signature()
}

// config is a config as it may be hashed and shown: secrets are ***.
func config(t *lang.Tree) string {
	if t == nil || !t.Set {
		return "-"
	}
	text, err := t.MarshalJSON()
	if err != nil {
		return "-"
	}
	return string(text)
}

func docText(d expression.Doc) string { return d.Format.String() }

func policyText(p check.Policy) string {
	classes := make([]string, 0, len(p.ByClass))
	for class, action := range p.ByClass {
		classes = append(classes, class+"="+string(action))
	}
	sort.Strings(classes)
	return fmt.Sprint(p.Then, p.DLQ, classes, p.RetryMax, p.RetryFirst, p.RetryLongest)
}

// resourcesText leaves out what the file does not say, so that plans of files stay what they were.
func resourcesText(r Resources) string {
	text := "{" + r.CommitInterval.String()
	if r.Standby > 0 {
		text += " standby " + strconv.Itoa(r.Standby)
	}
	return text + "}"
}

// fingerprints hashes every part and the whole.
func (b *builder) fingerprints() {
	p := b.plan
	var all []any
	for _, s := range p.Sources {
		parts := []any{"source", s.Topic, docText(s.Key), docText(s.Value),
			signature(s.KeyProgram), signature(s.EventTime), s.MaxLateness, s.CloseAtEnd,
			s.Start, b.declared(s.ID), connectorText(s.Connector)}
		if bad := s.Policy.ByClass["event_time"]; s.IdleAfter != 0 || s.MaxSkew != 0 ||
			s.PartitionTime || bad != p.Policy.ByClass["event_time"] {
			parts = append(parts, s.IdleAfter, s.MaxSkew, s.PartitionTime, bad)
		}
		s.Fingerprint = digest(parts...)
		all = append(all, s.ID, s.Fingerprint)
	}
	for _, t := range p.Tables {
		t.Fingerprint = digest("table", t.Topic, b.storedSource(t.Source), docText(t.Key), docText(t.Value))
		all = append(all, t.ID, t.Fingerprint)
	}
	for _, n := range p.Nodes {
		n.Fingerprint = digest("node", n.Kind, n.Inputs(), n.action(), policyText(n.Policy))
		n.State = b.state(n)
		all = append(all, n.ID, n.Fingerprint)
	}
	for _, s := range p.Sinks {
		value := "-"
		if s.Value != nil {
			value = s.Value.Signature()
		}
		s.Fingerprint = digest("sink", s.From, s.Topic, connectorText(s.Connector),
			signature(s.Key), value, s.Text, policyText(s.Policy))
		all = append(all, s.ID, s.Fingerprint)
	}
	for _, plugin := range p.Plugins {
		all = append(all, plugin.Alias, plugin.Source, plugin.Memory)
	}
	all = append(all, p.Pipeline, resourcesText(p.Resources))
	p.Fingerprint = digest(all...)
}

// storedSource is the id under which a source stores, "" for none.
func (b *builder) storedSource(id string) string {
	if s := b.plan.Source(id); s != nil {
		return s.StreamID()
	}
	return id
}

func connectorText(c *Connector) string {
	if c == nil {
		return "-"
	}
	return c.Name + config(c.Config)
}

// action is all a node does, as text.
func (n *Node) action() string {
	switch n.Kind {
	case KindFilter:
		return signature(n.Filter)
	case KindMap:
		return n.Map.Signature()
	case KindPatch:
		return n.Patch.Signature()
	case KindFlatMap:
		return signature(n.FlatMap)
	case KindLog:
		return n.Log.Signature()
	case KindRoute:
		return n.Route.Signature()
	case KindKeyBy:
		return signature(n.KeyBy.Key) + n.KeyBy.Topic + n.KeyBy.Null
	case KindBranch:
		var b strings.Builder
		for _, a := range n.Arms {
			fmt.Fprintf(&b, "%s=%s;", a.ID, signature(a.When))
		}
		return b.String()
	case KindJoin:
		return n.Join.action()
	case KindAggregate, KindReduce:
		return n.Aggregate.action()
	case KindDedupe, KindThrottle:
		return fmt.Sprint(*n.Gate)
	case KindTable:
		return fmt.Sprint(*n.Table)
	case KindForeign:
		return n.Foreign.Part + signature(n.Foreign.Key)
	case KindPlugin:
		u := n.Plugin
		return fmt.Sprint(u.Alias, u.Source, u.Operator, config(u.Config), u.Memory)
	}
	return ""
}

// state is what a node's stored values depend on: for an aggregate the group, the windows and the
// fields.
func (b *builder) state(n *Node) string {
	if n.Join != nil {
		return b.joinState(n)
	}
	if u := n.Plugin; u != nil && u.Timers {
		return digest("timers", b.keyText(n.From), docText(n.Key), u.Alias, u.Operator)
	}
	if g := n.Gate; g != nil {
		return digest(n.Kind, b.keyText(n.From), g.Within, g.Keyed)
	}
	if n.Table != nil {
		return digest("table", docText(n.Key), n.Table.IgnoreOld)
	}
	if n.Foreign != nil {
		return digest("foreign", n.Foreign.Part, docText(n.Key), signature(n.Foreign.Key))
	}
	a := n.Aggregate
	if a == nil {
		return ""
	}
	parts := []any{"aggregate", b.keyText(n.From), docText(n.Key), windowText(a), foldText(a)}
	if a.Window == Session || a.Window == Sliding || a.TTL > 0 {
		parts = append(parts, a.Grace, a.Lateness, a.TTL) // keys are marked by when they are due
	}
	if n.OverTable {
		parts = append(parts, "of a table")
	}
	if a.Emit == EmitEvery {
		parts = append(parts, a.Emit)
	}
	return digest(parts...)
}

// sortedIDs is a stable order for maps of parts.
func sortedIDs[T any](m map[string]T) []string {
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
