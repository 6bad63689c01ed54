package topology

import (
	"errors"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
)

// Aggregate computes fields per key of its input, in windows or for ever. Records that should be
// grouped by anything but the key they were read with go through KeyBy first.
func (b *Builder) Aggregate(id, from string, o aggregate.Options) {
	if o.Store == "" {
		o.Store = id
	}
	if err := errors.Join(o.Validate(), o.Bound()); err != nil {
		b.fault("aggregate %q: %w", id, err)
	}
	b.Process(id, []string{from}, ProcessOptions{Kind: "aggregate", New: aggregate.New(o),
		Stores: o.Stores(), Late: o.Late, OnError: o.OnError})
}

// Join looks every record of its input up in a table.
func (b *Builder) Join(id, from, table string, o join.Options) {
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	var t *Table
	if d := b.byID[table]; d != nil && d.table != nil {
		t = d.table
	}
	if t == nil {
		b.fault("join %q: there is no table %q yet; call Table before Join", id, table)
		return
	}
	if o.Key != nil && !t.Broadcast {
		b.fault("join %q: table %q holds only the keys of one partition per task, so it can be "+
			"looked up by the record's key alone; use key_by before the join, or make the table "+
			"broadcast", id, table)
	}
	b.Process(id, []string{from}, ProcessOptions{Kind: "join", OnError: o.OnError,
		New: join.New(o, t.ID, t.Decode), Tables: []string{table}, Transient: o.Transient})
}

// FilterRows keeps rows of a table, which from gives as changes (Changes); what no longer passes
// comes out as deleted.
func (b *Builder) FilterRows(id, from string, keep func(*operator.Record) (bool, error)) {
	b.Process(id, []string{from}, ProcessOptions{Kind: "filter", New: operator.FilterRows(keep)})
}

// MapRows changes the value of the rows of a table, which from gives as changes.
func (b *Builder) MapRows(id, from string, fn func(*operator.Record) error) {
	b.Process(id, []string{from}, ProcessOptions{Kind: "map", New: operator.MapRows(fn)})
}

// AggregateTable computes fields over the rows of a table, which from gives as changes (Changes),
// by groups: a row moves to the task of its group through the topic <app>-<id>-group-repartition,
// taken out of its old group before it is put into the new one.
func (b *Builder) AggregateTable(id, from string, group func(*operator.Record) ([]byte, error),
	o aggregate.Options) {
	o.Table = true
	b.Process(id+":rows", []string{from}, ProcessOptions{Kind: "group",
		New: operator.Regroup(group), OnError: o.OnError})
	b.KeyBy(id+"-group", id+":rows", KeyByOptions{OnError: o.OnError,
		Key: func(r *operator.Record) ([]byte, error) { return r.Key, nil }})
	b.Aggregate(id, id+"-group", o)
}

// Dedupe lets the first of records with the same key through, for a span of time.
func (b *Builder) Dedupe(id, from string, o gate.DedupeOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("dedupe %q: %w", id, err)
	}
	b.Process(id, []string{from}, ProcessOptions{Kind: "dedupe", New: gate.Dedupe(o),
		Stores: o.Stores(), OnError: o.OnError})
}

// Throttle lets so many records per span of event time through.
func (b *Builder) Throttle(id, from string, o gate.ThrottleOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("throttle %q: %w", id, err)
	}
	b.Process(id, []string{from}, ProcessOptions{Kind: "throttle", New: gate.Throttle(o),
		Stores: o.Stores(), OnError: o.OnError})
}
