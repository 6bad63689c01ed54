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
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/examples/nexmark"
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

func toTopics(g nexmark.Generator, events int64, broker string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed error // written by the callbacks, which Flush waits for, one after the other
	for n := range events {
		topic, key, value := g.Record(n)
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Key: key, Value: value,
			Timestamp: time.UnixMilli(g.Time(n))},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	return errors.Join(client.Flush(context.Background()), failed)
}
