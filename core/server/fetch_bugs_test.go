package server_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// One test for each public bug of a broker that a fetch shows, named after it.

// receiveHex reads the next answer as it is.
func receiveHex(t *testing.T, w *wire) string {
	t.Helper()
	_ = w.c.SetReadDeadline(time.Now().Add(time.Minute))
	var size [4]byte
	_, err := io.ReadFull(w.c, size[:])
	require.NoError(t, err)
	frame := make([]byte, int(size[2])<<8|int(size[3]))
	_, err = io.ReadFull(w.c, frame)
	require.NoError(t, err)
	return hex.EncodeToString(frame)
}

// TestBug_nisshi62_FetchV11Fields: the field before the records was written in a wrong version, so
// that clients read "preferred replica unknown" and a count of aborted transactions made of it. The
// bytes are written out by hand from the schema.
func TestBug_nisshi62_FetchV11Fields(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	part := func(logStart, aborted, preferred string) string {
		return "00000000" + "0000" + "0000000000000000" + "0000000000000000" + logStart + aborted +
			preferred + "00000000"
	}
	const start, top = "0000000000000000", "00000001" + "000174" + "00000001"
	for _, v := range []struct {
		version int16
		iso     int8
		want    string
	}{
		{4, 0, "00000000" + top + part("", "ffffffff", "")},
		{4, 1, "00000000" + top + part("", "00000000", "")},
		{5, 1, "00000000" + top + part(start, "00000000", "")},
		{7, 0, "00000000" + "0000" + "00000000" + top + part(start, "ffffffff", "")},
		{10, 0, "00000000" + "0000" + "00000000" + top + part(start, "ffffffff", "")},
		{11, 0, "00000000" + "0000" + "00000000" + top + part(start, "ffffffff", "ffffffff")},
		{11, 1, "00000000" + "0000" + "00000000" + top + part(start, "00000000", "ffffffff")},
	} {
		req := fetchRequest(v.version, "t", [16]byte{}, 0, 0)
		req.IsolationLevel = v.iso
		id := w.send(req)
		require.Equal(t, fmt.Sprintf("%08x", id)+v.want, receiveHex(t, w),
			"version %d, isolation %d", v.version, v.iso)
	}
}

// TestBug_kop180_EveryVersionReadsWhole: a field of a later version in an earlier one made clients
// run out of bytes. wire.receive compares every byte of each answer.
func TestBug_kop180_EveryVersionReadsWhole(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	for version := int16(4); version <= 18; version++ {
		req := fetchRequest(version, "t", id, 0, 0)
		empty, wrong := *first(req), *first(req)
		empty.Partition, wrong.Partition = 1, 7
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, empty, wrong)
		resp := ask[*kmsg.FetchResponse](w, req)
		require.Len(t, resp.Topics[0].Partitions, 3)
		require.Len(t, resp.Topics[0].Partitions[0].RecordBatches, 3*int(oneBatch(t)))
	}
}

// TestBug_nisshi668_EveryFetchIsAnswered: by the end of its wait, whatever it asks for.
func TestBug_nisshi668_EveryFetchIsAnswered(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 2)
	for _, minBytes := range []int32{-1, 0, 1, 1 << 30} {
		for _, wait := range []int32{-1, 0, 30} {
			for _, iso := range []int8{0, 1} {
				for _, offset := range []int64{-1, 0, 1, 2, 3} {
					req := fetchRequest(12, "t", id, 0, offset)
					req.MinBytes, req.MaxWaitMillis, req.IsolationLevel = minBytes, wait, iso
					fetchOne(w, req)
				}
			}
		}
	}
}

// TestBug_redpanda1115_kop699_EmptyFetchWaits: an empty answer that comes at once makes consumers
// ask all the time.
func TestBug_redpanda1115_kop699_EmptyFetchWaits(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	for _, iso := range []int8{0, 1} {
		for _, minBytes := range []int32{1, 500} {
			req := fetchRequest(12, "t", id, 0, 1)
			req.MaxWaitMillis, req.MinBytes, req.IsolationLevel = 60, minBytes, iso
			empty := *first(req)
			empty.Partition, empty.FetchOffset = 1, 0
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, empty)
			start := time.Now()
			resp := ask[*kmsg.FetchResponse](w, req)
			require.GreaterOrEqual(t, time.Since(start), 60*time.Millisecond)
			require.Empty(t, resp.Topics[0].Partitions[0].RecordBatches)
		}
	}
}

// TestBug_redpanda28501_FullPartitionAnswers: a partition that has more than its own limit is a
// reason to answer, though the answer has less than min bytes.
func TestBug_redpanda28501_FullPartitionAnswers(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 5)
	for _, iso := range []int8{0, 1} {
		req := fetchRequest(12, "t", id, 0, 0)
		req.MaxWaitMillis, req.MinBytes, req.IsolationLevel = 1<<31-1, 1<<20, iso
		first(req).PartitionMaxBytes = 2 * oneBatch(t)
		require.Len(t, fetchOne(w, req).RecordBatches, 2*int(oneBatch(t)))
	}
}

// TestBug_redpanda16146_BetweenHighWatermarkAndEnd: there is nothing to read there yet, which is no
// error that would make a consumer reset its offset. The high watermark is held back by a disk
// that does not finish its sync.
func TestBug_redpanda16146_BetweenHighWatermarkAndEnd(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	id := newTopic(t, c, "t", 1, nil)
	w, producer := dial(t, c), dial(t, c)
	fill(t, w, "t", 1)
	slow := disk.Inject(vfs.Rule{Op: vfs.OpSync, Delay: time.Second})
	req := produceRequest(9, "t", id, 0, batch(t, 2, record.BuilderOptions{}))
	sent := producer.send(req)
	for offset := int64(1); offset <= 3; offset++ {
		end := fetchRequest(12, "t", id, 0, offset)
		got := fetchOne(w, end)
		if got.ErrorCode == 1 { // not appended yet
			offset--
			continue
		}
		require.Zero(t, got.ErrorCode, "offset %d", offset)
		require.Empty(t, got.RecordBatches)
		require.Equal(t, int64(1), got.HighWatermark)
	}
	require.Equal(t, int16(1), fetchOne(w, fetchRequest(12, "t", id, 0, 4)).ErrorCode)
	slow()
	producer.receive(req, sent)
	require.NotEmpty(t, fetchOne(w, fetchRequest(12, "t", id, 0, 2)).RecordBatches)
}

// TestBug_kop1032_OnlyListedCodes: a code that the API does not have, such as 7, ends a Java
// consumer. What a broken disk gives is told in one of them.
func TestBug_kop1032_OnlyListedCodes(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	broken := disk.Inject(vfs.Rule{Op: vfs.OpRead, Path: "t-0/", Err: io.ErrUnexpectedEOF})
	defer broken()
	got := fetchOne(w, fetchRequest(12, "t", id, 0, 0))
	require.Contains(t, []int16{-1, 2, 56}, got.ErrorCode)
	require.Empty(t, got.RecordBatches)
	require.False(t, strings.Contains(c.Log(), "panicked"))
}
