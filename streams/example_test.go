package streams_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// amount is the value of an order.
func amount(rec *streams.Record) (streams.Value, error) {
	n, err := strconv.ParseInt(string(rec.Value), 10, 64)
	return streams.Int(n), err
}

func ExampleBuilder_window() {
	app := streams.New(streams.Options{App: "orders"})
	app.Stream("orders", "orders", streams.SourceOptions{}).
		Filter("big", func(rec *streams.Record) (bool, error) {
			v, err := amount(rec)
			return v.Int >= 10, err
		}).
		Window(streams.Tumbling(time.Minute)).Grace(10*time.Second).OnClose().
		Aggregate("totals", streams.Count("orders"), streams.Avg("mean", amount)).
		To("out", "totals")

	test, err := streamstest.New(app.Topology(), streamstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	test.Send("orders", "ann", "10", 1_000)
	test.Send("orders", "ann", "25", 59_000)
	test.Send("orders", "bob", "5", 30_000)
	test.Send("orders", "bob", "12", 60_000)
	if err := test.Run(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("before the end:", len(test.Output("totals")))
	test.AdvanceTo(70_000) // end of the window + grace
	if err := test.Run(); err != nil {
		fmt.Println(err)
	}
	for _, rec := range test.Output("totals") {
		fmt.Println(rec)
	}
	// Output:
	// before the end: 0
	// ann {"window_start":0,"window_end":60000,"orders":2,"mean":17.5} @59000
}

func ExampleStream_LeftJoin() {
	app := streams.New(streams.Options{App: "visits"})
	users := app.Table("users", "users", streams.TableOptions{})
	app.Stream("visits", "visits", streams.SourceOptions{}).
		LeftJoin("named", users, func(rec *streams.Record, right any) error {
			name := "somebody"
			if row, ok := right.([]byte); ok {
				name = string(row)
			}
			rec.SetValue([]byte(name + " saw " + string(rec.Value)))
			return nil
		}).
		To("out", "named")

	test, err := streamstest.New(app.Topology(), streamstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	test.Send("users", "u1", "Ann", 0)
	test.Send("visits", "u1", "/home", 5)
	test.Send("visits", "u2", "/home", 6)
	if err := test.Run(); err != nil {
		fmt.Println(err)
	}
	for _, rec := range test.Output("named") {
		fmt.Println(rec)
	}
	// Output:
	// u1 Ann saw /home @5
	// u2 somebody saw /home @6
}

func ExampleStream_Branch() {
	app := streams.New(streams.Options{App: "split",
		OnError: streams.ErrorPolicy{DeadLetterTopic: "split.dlq"}})
	sides := app.Stream("numbers", "numbers", streams.SourceOptions{}).
		Branch("sign",
			streams.Case{Name: "negative", When: func(rec *streams.Record) (bool, error) {
				v, err := amount(rec)
				return v.Int < 0, err
			}},
			streams.Case{Name: "other"})
	sides[0].To("below", "negative")
	sides[1].To("rest", "other")

	test, err := streamstest.New(app.Topology(), streamstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	test.Send("numbers", "a", "-1", 1)
	test.Send("numbers", "b", "7", 2)
	test.Send("numbers", "c", "seven", 3)
	if err := test.Run(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(test.Output("negative"), test.Output("other"))
	for _, rec := range test.Output("split.dlq") {
		why, _ := rec.Header(operator.HeaderDLQError)
		fmt.Printf("%s: %s\n", rec, why)
	}
	// Output:
	// [a -1 @1] [b 7 @2]
	// c seven @3: strconv.ParseInt: parsing "seven": invalid syntax
}

// Run needs a log cluster; here it is one in memory.
func ExampleRun() {
	ctx := context.Background()
	cluster := client.NewMemory()
	defer cluster.Close()
	err := cluster.Admin().CreateTopics(ctx,
		client.TopicSpec{Name: "words", Partitions: 2}, client.TopicSpec{Name: "counts", Partitions: 1})
	if err != nil {
		fmt.Println(err)
	}
	for i, word := range []string{"to", "be", "or", "not", "to", "be"} {
		err := cluster.Append(client.TopicPartition{Topic: "words", Partition: int32(i % 2)},
			record.Record{Value: []byte(word), Timestamp: int64(i)})
		if err != nil {
			fmt.Println(err)
		}
	}

	app := streams.New(streams.Options{App: "wordcount"})
	app.Stream("words", "words", streams.SourceOptions{}).
		KeyBy("by-word", func(rec *streams.Record) ([]byte, error) { return rec.Value, nil }).
		Aggregate("counts", time.Hour, streams.Count("n")).
		To("out", "counts")
	err = streams.Run(ctx, app, streams.RunOptions{Cluster: cluster, Bounded: true})
	if err != nil {
		fmt.Println(err)
	}

	last := map[string]string{}
	for _, rec := range cluster.Records(client.TopicPartition{Topic: "counts"}) {
		last[string(rec.Key)] = string(rec.Value)
	}
	fmt.Println(last)
	// Output:
	// map[be:{"n":2} not:{"n":1} or:{"n":1} to:{"n":2}]
}
