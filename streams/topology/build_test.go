package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

func all(*operator.Record) (bool, error)     { return true, nil }
func key(r *operator.Record) ([]byte, error) { return r.Key, nil }

var count = aggregate.Options{Fields: []aggregate.Field{{Name: "n"}}, Unbounded: true}

// topics are the partition counts of the tests: "flights6" has 6, "none" does not exist.
func topics(topic string) int32 {
	if topic == "none" {
		return 0
	}
	n := int32(1)
	_, _ = fmt.Sscanf(strings.TrimLeft(topic, "abcdefghijklmnopqrstuvwxyz"), "%d", &n)
	return n
}

// flights is the shape of a pipeline with a table, a repartition and a branch.
func flights(o topology.Options) *topology.Builder {
	o.App = "flights"
	b := topology.NewBuilder(o)
	b.Source("flights", "flights6", topology.SourceOptions{})
	b.Table("airports", "airports2", topology.TableOptions{Broadcast: true})
	b.Join("located", "flights", "airports", join.Options{Key: key,
		Join: func(*operator.Record, any) error { return nil }})
	b.Branch("sides", "located", []operator.Case{{Name: "late", When: all}, {Name: "rest"}})
	b.Sink("very-late", "sides.late", "verylate", topology.SinkOptions{})
	b.KeyBy("by_state", "located", topology.KeyByOptions{Key: key, Partitions: 3})
	totals := count
	totals.Windows, totals.Emit = window.Tumbling(24*time.Hour), aggregate.OnClose
	b.Aggregate("totals", "by_state", totals)
	b.Sink("out", "totals", "totals2", topology.SinkOptions{})
	return b
}

func TestBuildCutsAtKeyBy(t *testing.T) {
	b := flights(topology.Options{OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	topo, err := b.Build(topics)
	require.NoError(t, err)
	again, err := b.Build(topics)
	require.NoError(t, err)
	require.Len(t, topo.Subs, 2)
	up, down := topo.Subs[0], topo.Subs[1]
	require.Equal(t, "flights", up.Name)
	require.EqualValues(t, 6, up.Partitions)
	require.Equal(t, "by_state", down.Name)
	require.EqualValues(t, 3, down.Partitions)
	require.Equal(t, []string{"flights.flights.0", "flights.flights.1", "flights.flights.2",
		"flights.flights.3", "flights.flights.4", "flights.flights.5"}, down.Sources[0].Writers)
	require.Equal(t, up.Fingerprint, again.Subs[0].Fingerprint)

	var ids []string
	for _, n := range up.Nodes {
		ids = append(ids, n.ID+":"+n.Kind)
	}
	require.Equal(t, []string{"located:join", "sides:branch", "very-late:sink", "by_state:key_by",
		"by_state-repartition:repartition"}, ids)
	require.Equal(t, []topology.Port{{Source: -1, Node: 1, Output: 0}}, up.Nodes[2].Inputs)
	require.Equal(t, []operator.StoreSpec{{Name: "airports"}}, up.Stores)
	require.Equal(t, []operator.StoreSpec{{Name: "totals", Kind: operator.Windowed,
		Format: "aggregate 1 86400000/86400000+0 count"}}, down.Stores)
	require.Equal(t, "dlq", down.Sources[0].OnError.DeadLetterTopic)
	require.Equal(t, []topology.InternalTopic{
		{Name: "flights-flights-changelog", Partitions: 6, Kind: "changelog"},
		{Name: "flights-by_state-repartition", Partitions: 3, Kind: "repartition"},
		{Name: "flights-by_state-changelog", Partitions: 3, Kind: "changelog", Windowed: true},
	}, topo.InternalTopics())
	require.Equal(t, []string{"flights6", "airports2", "verylate", "totals2", "dlq"}, b.Topics())
}

// Editing stateless steps keeps the state; editing what rows mean does not.
func TestFingerprintCoversWhatStateDependsOn(t *testing.T) {
	build := func(edit func(*topology.Builder, *aggregate.Options)) string {
		b := topology.NewBuilder(topology.Options{App: "a"})
		b.Source("s", "orders6", topology.SourceOptions{})
		o := count
		o.Windows = window.Tumbling(time.Minute)
		edit(b, &o)
		b.Aggregate("n", "s", o)
		b.Sink("out", "n", "out", topology.SinkOptions{})
		topo, err := b.Build(topics)
		require.NoError(t, err)
		return topo.Subs[0].Fingerprint
	}
	base := build(func(*topology.Builder, *aggregate.Options) {})
	require.Equal(t, base, build(func(b *topology.Builder, _ *aggregate.Options) {
		b.Filter("f", "s", all)
	}))
	require.Equal(t, base, build(func(_ *topology.Builder, o *aggregate.Options) {
		o.Grace, o.Emit = time.Second, aggregate.OnClose
	}))
	require.NotEqual(t, base, build(func(_ *topology.Builder, o *aggregate.Options) {
		o.Windows = window.Tumbling(time.Hour)
	}))
	require.NotEqual(t, base, build(func(_ *topology.Builder, o *aggregate.Options) {
		o.Fields = []aggregate.Field{{Name: "n"}, {Name: "m"}}
	}))
}

var noop = join.Options{Join: func(*operator.Record, any) error { return nil }}

// faults are mistakes by what is said of them.
var faults = map[string]func(b *topology.Builder){
	`reads from "nowhere", which does not exist; there are: f, s`: func(b *topology.Builder) {
		b.Filter("f", "nowhere", all)
	},
	`sink "s": the id is already used by a source`: func(b *topology.Builder) {
		b.Sink("s", "s", "t", topology.SinkOptions{})
	},
	`source "a b": an id is 1-100 letters`: func(b *topology.Builder) {
		b.Source("a b", "t", topology.SourceOptions{})
	},
	`source "x": topic "none" does not exist`: func(b *topology.Builder) {
		b.Source("x", "none", topology.SourceOptions{})
	},
	`source "x": disorder is -1s`: func(b *topology.Builder) {
		b.Source("x", "t", topology.SourceOptions{Disorder: -time.Second})
	},
	`table "tt": topic "none" does not exist`: func(b *topology.Builder) {
		b.Table("tt", "none", topology.TableOptions{})
		b.Join("j", "s", "tt", noop)
	},
	`topic "none" does not exist`: func(b *topology.Builder) {
		b.Source("x", "none", topology.SourceOptions{})
		b.KeyBy("k", "s", topology.KeyByOptions{Key: key})
		b.Merge("m", "x", "k")
		b.Aggregate("n", "m", count)
	},
	`join "j": there is no table "s" yet`: func(b *topology.Builder) {
		b.Join("j", "s", "s", noop)
	},
	`join "j": table "tt" holds only the keys of one partition`: func(b *topology.Builder) {
		b.Table("tt", "t", topology.TableOptions{})
		o := noop
		o.Key = key
		b.Join("j", "s", "tt", o)
	},
	`no function given to put the row into the record`: func(b *topology.Builder) {
		b.Table("tt", "t", topology.TableOptions{})
		b.Join("j", "s", "tt", join.Options{})
	},
	`filter "f": reads from table "tt"; a table can only be joined`: func(b *topology.Builder) {
		b.Table("tt", "t", topology.TableOptions{})
		b.Filter("f", "tt", all)
	},
	`filter "f": reads from "o", which is a sink`: func(b *topology.Builder) {
		b.Sink("o", "s", "t", topology.SinkOptions{})
		b.Filter("f", "o", all)
	},
	`the outputs of "b" are: b.x, b.y`: func(b *topology.Builder) {
		b.Branch("b", "s", []operator.Case{{Name: "x", When: all}, {Name: "y"}})
		b.Filter("f", "b.z", all)
	},
	`"s" has no outputs with names`: func(b *topology.Builder) { b.Filter("f", "s.x", all) },
	`case "x" takes everything, so "y" never sees a record`: func(b *topology.Builder) {
		b.Branch("b", "s", []operator.Case{{Name: "x"}, {Name: "y", When: all}})
	},
	`branch "b": no cases`: func(b *topology.Builder) { b.Branch("b", "s", nil) },
	`reads its own output through other steps`: func(b *topology.Builder) {
		b.Merge("m", "s", "f")
		b.Filter("f", "m", all)
	},
	`merge "m": reads from nothing`: func(b *topology.Builder) { b.Merge("m") },
	`key_by "k": no function for the key`: func(b *topology.Builder) {
		b.KeyBy("k", "s", topology.KeyByOptions{})
	},
	`aggregate "n": invalid aggregate: no fields`: func(b *topology.Builder) {
		b.Aggregate("n", "s", aggregate.Options{})
	},
	`without windows of time every key there is would be kept for ever`: func(b *topology.Builder) {
		o := count
		o.Unbounded = false
		b.Aggregate("n", "s", o)
	},
	`process "p": no function given`: func(b *topology.Builder) {
		b.Process("p", []string{"s"}, topology.ProcessOptions{})
	},
	`sink "o": no topic`: func(b *topology.Builder) {
		b.Sink("o", "s", "", topology.SinkOptions{})
	},
	`the records would never end`: func(b *topology.Builder) {
		b.Sink("o", "s", "orders6", topology.SinkOptions{})
	},
	`late records go to a topic, but none is named`: func(b *topology.Builder) {
		o := count
		o.Late.Action = operator.LateSide
		b.Aggregate("n", "s", o)
	},
	`two stores are called "n"`: func(b *topology.Builder) {
		o := count
		o.Store = "n"
		b.Aggregate("n", "s", o)
		b.Aggregate("m", "n", o)
	},
	"topic \"orders6\", 6 partitions, murmur2 of the key bytes\n  source": func(b *topology.Builder) {
		b.Source("x", "other3", topology.SourceOptions{})
		b.Merge("m", "s", "x")
		b.Aggregate("n", "m", count)
	},
	`table "rows3": topic "rows3", 3 partitions`: func(b *topology.Builder) {
		b.Table("tt", "rows3", topology.TableOptions{})
		b.Join("j", "s", "tt", noop)
	},
}

// Every mistake is reported, with the ids it is about.
func TestBuildFaults(t *testing.T) {
	for want, describe := range faults {
		b := topology.NewBuilder(topology.Options{App: "a"})
		b.Source("s", "orders6", topology.SourceOptions{})
		describe(b)
		_, err := b.Build(topics)
		require.ErrorIs(t, err, topology.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	_, err := topology.NewBuilder(topology.Options{App: "no spaces"}).Build(topics)
	require.ErrorContains(t, err, `name of the pipeline "no spaces"`)
}

func TestBuildReportsAllFaults(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "a"})
	b.Source("s", "orders6", topology.SourceOptions{})
	b.Filter("f", "x", all)
	b.Sink("o", "y", "", topology.SinkOptions{})
	_, err := b.Build(topics)
	require.ErrorContains(t, err, `filter "f": reads from "x"`)
	require.ErrorContains(t, err, `sink "o": reads from "y"`)
	require.ErrorContains(t, err, `sink "o": no topic`)
}

// Streams of different partition counts may be merged as long as nothing depends on keys.
func TestBuildMergesUnequalStatelessInputs(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "a"})
	b.Source("s", "orders6", topology.SourceOptions{})
	b.Source("x", "other3", topology.SourceOptions{})
	b.Merge("m", "s", "x")
	b.Sink("o", "m", "out", topology.SinkOptions{})
	topo, err := b.Build(topics)
	require.NoError(t, err)
	require.EqualValues(t, 6, topo.Subs[0].Partitions)
	require.EqualValues(t, 3, topo.Subs[0].Sources[1].Partitions)
}

// Steps may be described in any order; a table used in two parts is kept in both.
func TestBuildOrderAndSharedTables(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "a"})
	b.Sink("o", "j2", "out", topology.SinkOptions{})
	b.Table("t", "rows6", topology.TableOptions{})
	b.Join("j2", "k", "t", noop)
	b.KeyBy("k", "j1", topology.KeyByOptions{Key: key})
	b.Join("j1", "s", "t", noop)
	b.Source("s", "orders6", topology.SourceOptions{})
	topo, err := b.Build(topics)
	require.NoError(t, err)
	require.Equal(t, []string{"s", "k"}, []string{topo.Subs[0].Name, topo.Subs[1].Name})
	require.Len(t, topo.Subs[0].Tables, 1)
	require.Len(t, topo.Subs[1].Tables, 1)
}
