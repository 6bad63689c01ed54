// Command generate writes Nexmark events to files, one per kind, or to the topics bids, auctions
// and persons of a cluster.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/examples/nexmark"
	"github.com/millstream-io/millstream/streams/client"
)

func main() {
	events := flag.Int64("n", 1_000_000, "number of events")
	seed := flag.Uint64("seed", 1, "seed; the same seed gives the same events")
	rate := flag.Int64("rate", 10_000, "events per second of event time")
	dir := flag.String("dir", "", "write bids.ndjson, auctions.ndjson and persons.ndjson here")
	broker := flag.String("bootstrap", "", "write to the topics of this cluster, host:port")
	flag.Parse()
	g := nexmark.Generator{Seed: *seed, Rate: *rate}
	var err error
	switch {
	case *dir != "" && *broker == "":
		err = toFiles(g, *events, *dir)
	case *broker != "" && *dir == "":
		err = toTopics(g, *events, *broker)
	default:
		err = errors.New("say where to: --dir DIR or --bootstrap HOST:PORT")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func toFiles(g nexmark.Generator, events int64, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string]*bufio.Writer{}
	for _, topic := range []string{"bids", "auctions", "persons"} {
		f, openErr := os.Create(filepath.Join(dir, topic+".ndjson"))
		if openErr != nil {
			return openErr
		}
		w := bufio.NewWriterSize(f, 1<<20)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
		files[topic] = w
	}
	for n := range events {
		topic, _, value := g.Record(n)
		if _, err := files[topic].Write(append(value, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// toTopics makes what is missing of the topics and writes to them; bids go round all partitions.
func toTopics(g nexmark.Generator, events int64, broker string) error {
	ctx := context.Background()
	cluster, err := client.NewKafka(client.Options{Seeds: []string{broker}})
	if err != nil {
		return err
	}
	defer cluster.Close()
	topics := []string{"bids", "auctions", "persons"}
	var specs []client.TopicSpec
	for _, topic := range topics {
		specs = append(specs, client.TopicSpec{Name: topic, Partitions: 6})
	}
	if err := cluster.Admin().CreateTopics(ctx, specs...); err != nil {
		return err
	}
	there, err := cluster.Admin().Topics(ctx, topics...)
	if err != nil {
		return err
	}
	producer, err := cluster.Producer()
	if err != nil {
		return err
	}
	defer producer.Close()
	for n := range events {
		topic, key, value := g.Record(n)
		to := client.TopicPartition{Topic: topic, Partition: int32(n % int64(there[topic].Partitions))}
		if key != nil {
			to.Partition = record.PartitionForKey(key, there[topic].Partitions)
		}
		r := record.Record{Timestamp: g.Time(n), Key: key, Value: value}
		if _, err := producer.Send(ctx, to, []record.Record{r}); err != nil {
			return err
		}
	}
	return producer.Flush(ctx)
}
