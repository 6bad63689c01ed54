package task

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// Steps that read the same stream do not see what the others do to it, although they may work in
// place; a decoded value they have in common is marked as shared.
func TestCoreFanOut(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "app"})
	b.Source("a", "a", topology.SourceOptions{})
	b.Map("decode", "a", func(r *operator.Record) error {
		r.SetDoc(&[]string{string(r.Value)})
		return nil
	})
	change := func(by string) func(r *operator.Record) error {
		return func(r *operator.Record) error {
			doc := *(r.Doc.(*[]string))
			if r.Shared {
				doc = slices.Clone(doc)
			}
			doc[0] += by
			r.SetDoc(&doc)
			return nil
		}
	}
	b.Filter("none", "decode", func(*operator.Record) (bool, error) { return false, nil })
	b.Map("left", "decode", change("L"))
	b.Map("right", "decode", change("R"))
	b.Map("again", "right", change("+"))
	b.Merge("both", "left", "again")
	b.Sink("nothing", "none", "out", topology.SinkOptions{})
	b.Sink("direct", "decode", "out", topology.SinkOptions{})
	b.Sink("out", "both", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	c.add("a", "k", "1", 1)
	c.add("a", "k", "2", 2)
	require.Equal(t, []string{`["1"]`, `["1L"]`, `["1R+"]`, `["2"]`, `["2L"]`, `["2R+"]`}, c.run())
	require.EqualValues(t, 2, c.stats("none").In.Load())
	require.Zero(t, c.stats("none").Out.Load())
	require.EqualValues(t, 4, c.stats("both").In.Load())
	require.EqualValues(t, 4, c.stats("out").Out.Load())
}

// A step that reads several inputs is told which one each record came by, also when one source is
// read twice: then both copies follow each other, in the order of the inputs.
func TestMergeTellsTheInput(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "t"})
	b.Source("a", "a", topology.SourceOptions{})
	b.Filter("even", "a", func(r *operator.Record) (bool, error) { return r.Timestamp%2 == 0, nil })
	b.Process("tell", []string{"even", "a", "a"}, topology.ProcessOptions{
		New: operator.Map(func(r *operator.Record) error {
			r.SetValue(fmt.Appendf(nil, "%s by %d", r.Value, r.Input))
			return nil
		})})
	b.Sink("out", "tell", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	c.add("a", "k", "x", 1)
	c.add("a", "k", "y", 2)
	require.Equal(t, []string{"x by 1", "x by 2", "y by 0", "y by 1", "y by 2"}, c.run())
}
