package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// The vocabulary of the layers below, so that most programs import this package alone.
type (
	// Record is one record on its way through the steps.
	Record = operator.Record
	// Options apply to a whole pipeline.
	Options = topology.Options
	// SourceOptions describe how a topic is read and what its event time is.
	SourceOptions = topology.SourceOptions
	// TableOptions describe how a compacted topic becomes a table.
	TableOptions = topology.TableOptions
	// KeyByOptions describe a repartition.
	KeyByOptions = topology.KeyByOptions
	// SinkOptions describe what a sink writes.
	SinkOptions = topology.SinkOptions
	// ProcessOptions describe a step of one's own.
	ProcessOptions = topology.ProcessOptions
	// ErrorPolicy says what happens to a record that fails.
	ErrorPolicy = operator.ErrorPolicy
	// LatePolicy says what happens to a record whose window is closed.
	LatePolicy = operator.LatePolicy
	// Case is one output of Branch.
	Case = operator.Case
	// Windows are a way to cut the records of a key.
	Windows = window.Windows
	// Field is one value of an aggregate.
	Field = aggregate.Field
	// Value is a number, a string or null.
	Value = aggregate.Value
	// RunOptions say where and how a pipeline runs; Topology is set by Run.
	RunOptions = task.Options
)

// Tumbling returns windows that follow each other without gap or overlap.
func Tumbling(size time.Duration) Windows { return window.Tumbling(size) }

// Hopping returns windows of a size that start every advance.
func Hopping(size, advance time.Duration) Windows { return window.Hopping(size, advance) }

// Sessions returns windows of records that are at most gap apart.
func Sessions(gap time.Duration) Windows { return window.Sessions(gap) }

// Sliding returns windows whose first and last record are at most span apart.
func Sliding(span time.Duration) Windows { return window.SlidingBy(span) }

// CountOf returns windows of n records.
func CountOf(n int64) Windows { return window.Counted(n) }

// Builder collects the steps of a pipeline. Mistakes are reported by Build, all at once.
type Builder struct{ b *topology.Builder }

// New starts an empty pipeline.
func New(o Options) *Builder { return &Builder{b: topology.NewBuilder(o)} }

// Stream reads a topic.
func (b *Builder) Stream(id, topic string, o SourceOptions) *Stream {
	b.b.Source(id, topic, o)
	return &Stream{b: b.b, id: id}
}

// Table keeps the latest value of every key of a compacted topic, to be joined.
func (b *Builder) Table(id, topic string, o TableOptions) *Table {
	b.b.Table(id, topic, o)
	return &Table{id: id}
}

// Topology returns the builder of the layer below, for tools such as streamstest.
func (b *Builder) Topology() *topology.Builder { return b.b }

// Build checks the pipeline. partitions returns the number of partitions of a topic, 0 if it does
// not exist.
func (b *Builder) Build(partitions func(topic string) int32) (*topology.Topology, error) {
	return b.b.Build(partitions)
}

// Run builds the pipeline for the topics of o.Cluster and runs all of its tasks in this process
// until ctx ends (nil is returned then), all bounded input is processed, or a task fails.
func Run(ctx context.Context, b *Builder, o RunOptions) error {
	if o.Cluster == nil {
		return fmt.Errorf("run pipeline: no cluster given")
	}
	topo, err := BuildFor(ctx, b, o.Cluster)
	if err != nil {
		return fmt.Errorf("run pipeline: %w", err)
	}
	o.Topology = topo
	w, err := task.NewWorker(o)
	if err != nil {
		return fmt.Errorf("run pipeline %s: %w", topo.App, err)
	}
	return w.Run(ctx)
}

// BuildFor builds the pipeline for the topics a cluster has.
func BuildFor(ctx context.Context, b *Builder, c client.Cluster) (*topology.Topology, error) {
	topics, err := c.Admin().Topics(ctx, b.b.Topics()...)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", err)
	}
	return b.b.Build(func(topic string) int32 { return topics[topic].Partitions })
}
