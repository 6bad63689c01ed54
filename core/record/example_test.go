package record_test

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
)

func ExampleBuilder() {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Lz4, BaseOffset: 100})
	b.Append(record.Record{Timestamp: 1700000000000, Key: []byte("SFO"), Value: []byte("late")})
	b.Append(record.Record{Timestamp: 1700000000001, Key: []byte("JFK"), Value: []byte("on-time")})
	batch, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(batch.Count(), batch.BaseOffset(), batch.LastOffset(), batch.Codec(), batch.CheckCRC())
	// Output: 2 100 101 lz4 <nil>
}

func ExampleIterator() {
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Key: []byte("a"), Value: []byte("1")})
	b.Append(record.Record{Key: []byte("b")})
	batch, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	var it record.Iterator // kept and reused for batch after batch
	var r record.Record
	if err := it.Reset(batch, 1<<20); err != nil {
		fmt.Println(err)
	}
	for ok, err := it.Next(&r); ok; ok, err = it.Next(&r) {
		fmt.Printf("%d %s %q %v\n", r.Offset, r.Key, r.Value, err)
	}
	// Output:
	// 0 a "1" <nil>
	// 1 b "" <nil>
}

func ExampleNext() {
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Value: []byte("x")})
	batch, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fetched := append(append([]byte(nil), batch...), batch[:20]...) // the second one is cut short
	for {
		next, rest, err := record.Next(fetched)
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(len(next), "bytes")
		fetched = rest
	}
	// Output:
	// 69 bytes
	// batch is cut short
}

func ExamplePartitionForKey() {
	fmt.Println(record.PartitionForKey([]byte("SFO"), 6))
	// Output: 4
}
