package task_test

import (
	"context"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

// A source that can be read again writes each line once: the second run starts at the position of
// the last commit, and what was written after it nobody has seen.
func ExampleOpenSequenced() {
	ctx := context.Background()
	log := client.NewMemory() // client.NewKafka for a broker
	lines := []string{"zero", "one", "two", "three"}
	err := log.Admin().CreateTopics(ctx, task.CommitTopic("app-sources", 1),
		client.TopicSpec{Name: "lines", Partitions: 1})
	if err != nil {
		fmt.Println(err)
	}
	run := func(from, commitAfter, to int) {
		p, err := task.OpenSequenced(ctx, task.SequencedOptions{
			Cluster: log, Writer: "file.0", Topics: []string{"lines"},
			Commits: client.TopicPartition{Topic: "app-sources"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer p.Close()
		for i := from; i < to; i++ {
			rec := record.Record{Value: []byte(lines[i])}
			if err := p.Send(ctx, "lines", 0, []record.Record{rec}); err != nil {
				fmt.Println(err)
			}
			if i+1 == commitAfter {
				if err := p.Commit(ctx, fmt.Append(nil, i+1)); err != nil {
					fmt.Println(err)
				}
			}
		}
		fmt.Printf("wrote %d\n", p.Written())
	}
	run(0, 2, 3) // "two" is written, but the crash comes before its commit
	run(2, 4, 4) // read again from position 2
	fmt.Println(len(log.Records(client.TopicPartition{Topic: "lines"})), "lines")
	// Output:
	// wrote 3
	// wrote 2
	// 4 lines
}

// A bounded run ends when the inputs are processed up to the ends they had at the start.
func ExampleWorker() {
	ctx := context.Background()
	log := client.NewMemory()
	in := client.TopicPartition{Topic: "in"}
	err := log.Admin().CreateTopics(ctx, client.TopicSpec{Name: "in", Partitions: 1},
		client.TopicSpec{Name: "out", Partitions: 1})
	for _, v := range []string{"keep 1", "drop 2", "keep 3"} {
		if err == nil {
			err = log.Append(in, record.Record{Value: []byte(v)})
		}
	}
	b := topology.NewBuilder(topology.Options{App: "example"})
	b.Source("in", "in", topology.SourceOptions{})
	b.Filter("kept", "in", func(r *operator.Record) (bool, error) { return r.Value[0] == 'k', nil })
	b.Sink("out", "kept", "out", topology.SinkOptions{})
	topo, buildErr := b.Build(func(string) int32 { return 1 })
	if err != nil || buildErr != nil {
		fmt.Println(err, buildErr)
		return
	}
	w, err := task.NewWorker(task.Options{Topology: topo, Cluster: log, Bounded: true})
	if err == nil {
		err = w.Run(ctx)
	}
	fmt.Println(err)
	for _, r := range log.Records(client.TopicPartition{Topic: "out"}) {
		fmt.Println(string(r.Value))
	}
	st := w.Status().Tasks[0]
	fmt.Println(st.Name, st.Phase, st.Processed, "lag", st.Inputs[0].Lag)
	// Output:
	// <nil>
	// keep 1
	// keep 3
	// example.in.0 done 3 lag 0
}
