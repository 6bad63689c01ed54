package topology

import (
	"github.com/millstream-io/millstream/streams/join"
)

// JoinStreams joins two streams by key and event time. Their topics must have the same number of
// partitions, keyed alike. left and right may be the same stream.
func (b *Builder) JoinStreams(id, left, right string, o join.StreamOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	b.Process(id, []string{left, right}, ProcessOptions{Kind: "join", New: join.NewStreams(o),
		Stores: o.Stores(), Late: o.Late, OnError: o.OnError})
}

// JoinTable joins a stream with the upserts of a table, in the order of event time. Both must be
// keyed alike. table is a stream: a source, or a step. Unlike Join, what comes out is a function of
// the inputs alone.
func (b *Builder) JoinTable(id, stream, table string, o join.TableOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	b.Process(id, []string{stream, table}, ProcessOptions{Kind: "join", New: join.NewTable(o),
		Stores: o.Stores(), Late: o.Late, OnError: o.OnError})
}

// JoinTables joins the upserts of two tables by key; what comes out are the changes of a third.
func (b *Builder) JoinTables(id, left, right string, o join.TablesOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	b.Process(id, []string{left, right}, ProcessOptions{Kind: "join", New: join.NewTables(o),
		Stores: o.Stores(), OnError: o.OnError})
}

// Changes keeps the latest record of every key of a stream of upserts, and gives each with the row
// it takes the place of (Record.Old).
func (b *Builder) Changes(id, from string, o join.ChangesOptions) {
	if o.Store == "" {
		o.Store = id
	}
	b.Process(id, []string{from}, ProcessOptions{Kind: "table", New: join.NewChanges(o),
		Stores: o.Stores(), OnError: o.OnError})
}

// JoinForeign joins two tables in which rows of the left one name keys of the right one; the result
// has the keys of the left one. Left rows, what they ask for and the answers go through repartition
// topics of their own: <id>-rows, <id>-subscription, <id>-answer; and right rows through <id>-right
// if both sides would be in one task (plan.apart).
func (b *Builder) JoinForeign(id, left, right string, o join.ForeignOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	o = o.WithDefaults()
	move := func(part, from string) string {
		b.KeyBy(id+"-"+part, from, keepKey(o))
		return id + "-" + part
	}
	ask, match := id+":ask", id+":match"
	b.foreign = append(b.foreign, foreign{id: id, right: right, opts: o})
	b.Process(ask, []string{left}, ProcessOptions{Kind: "join", New: join.NewForeignLeft(o),
		Outputs: join.ForeignOutputs(), Stores: o.LeftStores(), OnError: o.OnError})
	b.Process(match, []string{move("subscription", ask+".subscriptions"), right}, ProcessOptions{
		Kind: "join", New: join.NewForeignMatch(o), Stores: o.MatchStores(), OnError: o.OnError})
	b.Process(id, []string{move("rows", ask+".rows"), move("answer", match)}, ProcessOptions{
		Kind: "join", New: join.NewForeignResult(o), Stores: o.Stores(), OnError: o.OnError})
}
