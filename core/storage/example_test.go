package storage_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// Appending a batch, making it durable, and reading it back. On a real disk FS and Path are all
// that differs.
func Example() {
	ctx := context.Background()
	dir, err := storage.OpenDir(ctx, storage.DirOptions{FS: vfs.NewMem(), Path: "/data"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dir.Close() }()
	log, err := dir.Create(storage.TopicPartition{Topic: "orders", Partition: 0}, uuid.New(),
		storage.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Timestamp: record.NoTimestamp, Value: []byte("first")})
	b.Append(record.Record{Timestamp: record.NoTimestamp, Value: []byte("second")})
	batch, _ := b.Build()
	res, err := log.Append(batch, storage.AppendOptions{Origin: storage.FromClient})
	fmt.Println("offsets", res.BaseOffset, "to", res.LastOffset, err)
	fmt.Println("synced", log.Sync(ctx), log.SyncedOffset())

	chunk, err := log.Read(1, 1<<20, log.EndOffset(), true)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer chunk.Release()
	data, _ := chunk.AppendTo(nil)
	found, _, _ := record.Next(data)
	records, _ := found.Records(1 << 20)
	fmt.Printf("batch at %d: %s %s\n", chunk.FirstOffset(), records[0].Value, records[1].Value)
	// Output:
	// offsets 0 to 1 <nil>
	// synced <nil> 2
	// batch at 0: first second
}
