// Command files fills a broker with all that a log can hold, and prints all that a broker has, so that two of them can
// be compared. .ci/compat/files runs it.
//
//	files create BOOTSTRAP    the topics
//	files write BOOTSTRAP     records, transactions, groups
//	files read BOOTSTRAP      prints everything, the same text for the same content
//	files append BOOTSTRAP    goes on with the same topics and transactional ids
//	files skip-ids BOOTSTRAP  uses up producer ids
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		os.Exit(1)
	}
}

var (
	ctx       = context.Background()
	bootstrap string
)

func client(opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())},
		opts...)...)
	check(err)
	return c
}

func main() {
	bootstrap = os.Args[2]
	do := map[string]func(){"create": create, "write": write, "read": read, "append": appendMore, "skip-ids": skipIDs}
	do[os.Args[1]]()
}

func text(s string) *string { return &s }

func create() {
	admin := kadm.NewClient(client())
	make := func(name string, partitions int32, configs map[string]*string) {
		_, err := admin.CreateTopic(ctx, partitions, 1, configs, name)
		check(err)
	}
	for _, c := range codecs {
		make("codec-"+c.name, 2, nil)
	}
	make("append-time", 1, map[string]*string{"message.timestamp.type": text("LogAppendTime")})
	make("settled", 1, nil)
	make("deleted", 1, nil)
	make("compacted", 1, map[string]*string{"cleanup.policy": text("compact"), "segment.ms": text("300"),
		"min.cleanable.dirty.ratio": text("0.01"), "max.compaction.lag.ms": text("500")})
	// Makes the internal topics, too.
	use := client(kgo.TransactionalID("settled-1"))
	_, _, err := use.ProducerID(ctx)
	check(err)
	use.Close()
	for try := range 100 { // Kafka answers while it makes the topic that it cannot
		if _, err = admin.FetchOffsets(ctx, "none"); err == nil {
			return
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	check(err)
}

func send(c *kgo.Client, topic string, partition int32, from, n int) {
	var list []*kgo.Record
	for i := from; i < from+n; i++ {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i%7),
			Value:     fmt.Appendf(nil, "value %d of %s-%d %s", i, topic, partition, strings.Repeat("x", i%90)),
			Timestamp: time.Now().Add(-time.Duration(1000-i) * time.Millisecond)}
		switch i % 5 {
		case 1:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}, {Key: "é"}}
		case 2:
			r.Value = nil
		case 3:
			r.Key = nil
		}
		if topic == "compacted" {
			r.Key = fmt.Appendf(nil, "k%d", i%7)
		}
		list = append(list, r)
	}
	check(c.ProduceSync(ctx, list...).FirstErr())
}

// transaction writes n records of a transaction and ends it, but for an open one.
func transaction(id string, from, n int, end string) *kgo.Client {
	c := client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
	check(c.BeginTransaction())
	send(c, "settled", 0, from, n)
	switch end {
	case "commit":
		check(c.EndTransaction(ctx, kgo.TryCommit))
	case "abort":
		check(c.EndTransaction(ctx, kgo.TryAbort))
	}
	return c
}

func write() {
	for _, codec := range codecs {
		c := client(kgo.ProducerBatchCompression(codec.codec))
		loose := client(kgo.ProducerBatchCompression(codec.codec), kgo.DisableIdempotentWrite())
		for i := range 10 {
			send(c, "codec-"+codec.name, int32(i%2), 10*i, 10)
			send(loose, "codec-"+codec.name, int32(i%2), 10*i, 7)
		}
	}
	c := client()
	send(c, "append-time", 0, 0, 20)
	send(c, "deleted", 0, 0, 30)
	send(c, "deleted", 0, 30, 30)
	admin := kadm.NewClient(c)
	var upTo kadm.Offsets
	upTo.AddOffset("deleted", 0, 37, -1)
	_, err := admin.DeleteRecords(ctx, upTo)
	check(err)
	for round := range 4 {
		transaction("settled-1", 100*round, 10, "commit")
		transaction("settled-2", 100*round+20, 5, "abort")
		send(c, "settled", 0, 100*round+40, 3)
	}
	transaction("settled-open", 1000, 4, "")
	send(c, "settled", 0, 900, 3)
	transaction("settled-2", 920, 3, "abort")
	compacted(c, admin)
	group(admin, "classic", nil)
	group(admin, "consumer", []kgo.Opt{kgo.WithContext(context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true))})
}

// compacted writes until the broker has compacted.
func compacted(c *kgo.Client, admin *kadm.Client) {
	for i := range 60 {
		send(c, "compacted", 0, 10*i, 10)
		time.Sleep(400 * time.Millisecond)
		if i < 5 {
			continue
		}
		if n := len(records("compacted", false)); n < 10*i {
			// What it does from now on must not differ between two readings.
			_, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.compaction.lag.ms",
				Value: text("86400000")}, {Op: kadm.DeleteConfig, Name: "max.compaction.lag.ms"},
				{Op: kadm.DeleteConfig, Name: "segment.ms"}}, "compacted")
			check(err)
			time.Sleep(2 * time.Second)
			return
		}
	}
	check(fmt.Errorf("the broker does not compact"))
}

func group(admin *kadm.Client, name string, opts []kgo.Opt) {
	c := client(append(opts, kgo.ConsumerGroup(name), kgo.ConsumeTopics("codec-gzip", "deleted"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	defer c.Close()
	for n := 0; n < 60; {
		wait, cancel := context.WithTimeout(ctx, 20*time.Second)
		f := c.PollRecords(wait, 20)
		cancel()
		check(f.Err())
		n += f.NumRecords()
		check(c.CommitRecords(ctx, f.Records()...))
	}
}

// records reads a topic to its end, or to its last stable offset.
func records(topic string, committed bool) []*kgo.Record {
	admin := kadm.NewClient(client())
	ends, err := admin.ListEndOffsets(ctx, topic)
	if committed {
		ends, err = admin.ListCommittedOffsets(ctx, topic)
	}
	check(err)
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	c := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	starts, err := admin.ListStartOffsets(ctx, topic)
	check(err)
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if first, _ := starts.Lookup(topic, o.Partition); first.Offset < o.Offset {
			left[o.Partition] = o.Offset
		}
	})
	var list []*kgo.Record
	for len(left) > 0 {
		wait, cancel := context.WithTimeout(ctx, 10*time.Second)
		f := c.PollFetches(wait)
		cancel()
		check(f.Err())
		f.EachRecord(func(r *kgo.Record) {
			list = append(list, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	slices.SortFunc(list, func(a, b *kgo.Record) int {
		return int(int64(a.Partition-b.Partition)<<40 + a.Offset - b.Offset)
	})
	return list
}

func read() {
	admin := kadm.NewClient(client())
	topics, err := admin.ListTopics(ctx)
	check(err)
	for _, t := range topics.Sorted() {
		fmt.Printf("topic %s id %s partitions %d\n", t.Topic, t.ID, len(t.Partitions))
		for level, list := range map[string]func(context.Context, ...string) (kadm.ListedOffsets, error){
			"start": admin.ListStartOffsets, "end": admin.ListEndOffsets, "stable": admin.ListCommittedOffsets} {
			offsets, err := list(ctx, t.Topic)
			check(err)
			for _, o := range offsets.Offsets().Sorted() {
				defer fmt.Printf("offset %s-%d %s %d\n", o.Topic, o.Partition, level, o.At)
			}
		}
		for _, committed := range []bool{false, true} {
			for _, r := range records(t.Topic, committed) {
				fmt.Printf("record %s-%d committed=%v %d time=%d/%d attributes=%d producer=%d/%d epoch=%d %q=%x nil=%v headers=%v\n",
					r.Topic, r.Partition, committed, r.Offset, r.Timestamp.UnixMilli(), r.Attrs.TimestampType(),
					r.Attrs.CompressionType(), r.ProducerID, r.ProducerEpoch, r.LeaderEpoch, r.Key, sha256.Sum224(r.Value),
					r.Value == nil, r.Headers)
			}
		}
		configs, err := admin.DescribeTopicConfigs(ctx, t.Topic)
		check(err)
		for _, c := range configs {
			for _, e := range c.Configs {
				if e.Source == kmsg.ConfigSourceDynamicTopicConfig {
					fmt.Printf("config %s %s=%s\n", c.Name, e.Key, e.MaybeValue())
				}
			}
		}
	}
	for _, g := range []string{"classic", "consumer"} {
		offsets, err := admin.FetchOffsets(ctx, g)
		check(err)
		for _, o := range offsets.Sorted() {
			fmt.Printf("group %s %s-%d %d epoch %d %q\n", g, o.Topic, o.Partition, o.At, o.LeaderEpoch, o.Metadata)
		}
	}
	described, err := admin.DescribeTransactions(ctx, "settled-1", "settled-2", "settled-open")
	check(err)
	for _, d := range described.Sorted() {
		fmt.Printf("transaction %s state %s producer %d/%d %v\n", d.TxnID, d.State, d.ProducerID, d.ProducerEpoch,
			d.Topics.Sorted())
	}
}

func appendMore() {
	c := client()
	for _, codec := range codecs {
		send(c, "codec-"+codec.name, 0, 500, 10)
	}
	for _, topic := range []string{"append-time", "deleted", "compacted", "settled"} {
		send(c, topic, 0, 500, 10)
	}
	transaction("settled-1", 2000, 5, "commit")
	transaction("settled-2", 2010, 5, "abort")
	// Whoever takes the name of an open transaction aborts it.
	transaction("settled-open", 2020, 5, "commit")
	group(kadm.NewClient(c), "fresh", nil)
	o, err := kadm.NewClient(c).ListCommittedOffsets(ctx, "settled")
	check(err)
	end, err := kadm.NewClient(c).ListEndOffsets(ctx, "settled")
	check(err)
	stable, _ := o.Lookup("settled", 0)
	last, _ := end.Lookup("settled", 0)
	if stable.Offset != last.Offset {
		check(fmt.Errorf("last stable offset is %d, want the end, %d", stable.Offset, last.Offset))
	}
}

func skipIDs() {
	c := client()
	for range 5000 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 60000
		req.ProducerID, req.ProducerEpoch = -1, -1
		_, err := req.RequestWith(ctx, c)
		check(err)
	}
}
