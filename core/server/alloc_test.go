//go:build !race

package server_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// TestHotPathsDoNotAllocate gates what a produce and a fetch allocate in the whole process, with
// the client of this file, which allocates nothing. It needs TCP: the in-memory network allocates
// a timer for each deadline. The race detector empties pools at random: it is left out there.
func TestHotPathsDoNotAllocate(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	benchTopic(t, c, "t")
	r := newRawClient(t, c)
	produce := frameOf(produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 1<<10)))
	fetch := fetchRequest(12, "t", [16]byte{}, 0, 0)
	first(fetch).PartitionMaxBytes = 1 << 10
	newTopic(t, c, "g", 1, nil) // flush=group: answered by the flusher
	synced := frameOf(produceRequest(9, "g", [16]byte{}, 0, sizedBatch(t, 1<<10)))
	large := fetchRequest(12, "t", [16]byte{}, 0, 0)
	run := func(frame []byte) {
		require.NoError(t, r.write(frame))
		_, err := r.skip()
		require.NoError(t, err)
	}
	for range 200 {
		run(produce)
		run(synced)
	}
	for _, v := range []struct {
		name  string
		frame []byte
		most  float64
	}{
		{"produce", produce, 1},
		{"produce that waits for its sync", synced, 2},
		{"fetch", frameOf(fetch), 1},
		{"fetch with sendfile", frameOf(large), 2}, // the file's raw connection
	} {
		run(v.frame)
		got := testing.AllocsPerRun(500, func() { run(v.frame) })
		require.LessOrEqual(t, got, v.most, v.name)
	}
}

// TestSessionFetchDoesNotAllocate is the same for a client with a session of which some partitions
// have records each time.
func TestSessionFetchDoesNotAllocate(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	flush := "os"
	newTopic(t, c, "t", 3, map[string]*string{"flush": &flush})
	w := dial(t, c)
	produceOne(w, produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 1<<10)))
	begin := sessionFetch(12, [16]byte{}, 0, 0, at{0, 0}, at{1, 0}, at{2, 0})
	session := ask[*kmsg.FetchResponse](w, begin).SessionID
	r := &rawClient{c: w.c, buf: make([]byte, 64<<10)}
	req := sessionFetch(12, [16]byte{}, session, 1, at{0, 0})
	first(req).PartitionMaxBytes = 1 << 10
	frame := frameOf(req)
	epochAt := bytes.Index(frame, []byte{0, 0, 0, 1, 2, 2, 't'}) // before one topic of one letter
	require.Positive(t, epochAt)
	epoch := uint32(0)
	run := func() {
		epoch++
		binary.BigEndian.PutUint32(frame[epochAt:], epoch)
		require.NoError(t, r.write(frame))
		size, err := r.skip()
		require.NoError(t, err)
		if size < 500 {
			t.Fatal("no records: is the epoch right?")
		}
	}
	for range 200 {
		run()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(500, run), 0.0)
}
