package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// pipeReader is a frameReader of what write writes.
func pipeReader(t *testing.T, memory int64, write func(net.Conn)) *frameReader {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		write(client)
		_ = client.Close()
	}()
	limits := Limits{}
	limits.withDefaults()
	r := &frameReader{conn: server, readers: newBudget(1 << 20), memory: newBudget(memory),
		huge:    newBudget(memory),
		limitOf: limits.frame, idle: time.Minute, step: time.Minute}
	t.Cleanup(func() {
		r.close()
		_ = server.Close()
		<-done
		require.Equal(t, r.memory.total, heldNothing(r.memory))
		require.Equal(t, r.huge.total, heldNothing(r.huge))
		require.Equal(t, r.readers.total, heldNothing(r.readers))
	})
	return r
}

// TestFramesOfAnySizeArriveWhole: sizes around each step in which memory is claimed, one after the
// other. Produce is api key 0, so that the larger limit holds.
func TestFramesOfAnySizeArriveWhole(t *testing.T) {
	sizes := []int{
		100, readBufferBytes, readBufferBytes + 1, 4<<20 - 1, 4 << 20, 4<<20 + 1,
		largeBufferBytes, largeBufferBytes + 1, 20 << 20, 200,
	}
	pattern := func(size int) []byte {
		b := make([]byte, size)
		for i := 8; i < size; i++ {
			b[i] = byte(i * i >> 3)
		}
		return b
	}
	r := pipeReader(t, 64<<20, func(c net.Conn) {
		for _, size := range sizes {
			_, _ = c.Write(binary.BigEndian.AppendUint32(nil, uint32(size)))
			_, _ = c.Write(pattern(size))
		}
	})
	for _, size := range sizes {
		frame, err := r.next(t.Context(), 100<<20, readBufferBytes)
		require.NoError(t, err)
		require.True(t, bytes.Equal(pattern(size), frame), "frame of %d bytes", size)
	}
}

// TestFrameLargerThanTheBudget gets all of it rather than nothing.
func TestFrameLargerThanTheBudget(t *testing.T) {
	r := pipeReader(t, 1<<20, func(c net.Conn) {
		_, _ = c.Write(binary.BigEndian.AppendUint32(nil, 6<<20))
		_, _ = c.Write(make([]byte, 6<<20))
	})
	frame, err := r.next(t.Context(), 100<<20, readBufferBytes)
	require.NoError(t, err)
	require.Len(t, frame, 6<<20)
}

// TestLengthAloneClaimsLittle: a client that announces 100 MiB and sends nothing more holds its
// read buffer, and after 64 KiB no more than the first step.
func TestLengthAloneClaimsLittle(t *testing.T) {
	for sent, most := range map[int]int64{10: 0, readBufferBytes: largeBufferBytes} {
		hold := make(chan struct{})
		r := pipeReader(t, 256<<20, func(c net.Conn) {
			_, _ = c.Write(binary.BigEndian.AppendUint32(nil, 100<<20))
			_, _ = c.Write(make([]byte, sent))
			<-hold
		})
		failed := make(chan error, 1)
		go func() {
			_, err := r.next(t.Context(), 100<<20, readBufferBytes)
			failed <- err
		}()
		rest := r.memory.total - most
		require.NoError(t, r.memory.sem.Acquire(t.Context(), rest))
		close(hold)
		require.Error(t, <-failed)
		r.memory.sem.Release(rest)
	}
}

// TestMemoryOfRequestsIsAllCounted: clients that each send the first 16 MiB of a frame of 40 and
// stop there do not hold more than the budgets: those who wait for memory have none that is not
// counted. Each goes on when the others are gone.
func TestMemoryOfRequestsIsAllCounted(t *testing.T) {
	const clients, frameBytes = 8, 40 << 20
	memory, huge, readers := newBudget(32<<20), newBudget(64<<20), newBudget(1<<20)
	limits := Limits{}
	limits.withDefaults()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the pools are empty then
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	zeros := make([]byte, frameBytes)
	before := heap()
	goOn := make(chan struct{})
	var done sync.WaitGroup
	for range clients {
		client, server := net.Pipe()
		done.Go(func() {
			_, _ = client.Write(binary.BigEndian.AppendUint32(nil, frameBytes))
			_, _ = client.Write(zeros[:largeBufferBytes])
			<-goOn
			_, _ = client.Write(zeros[largeBufferBytes:])
			_ = client.Close()
		})
		r := &frameReader{conn: server, readers: readers, memory: memory, huge: huge,
			limitOf: limits.frame, idle: time.Minute, step: time.Minute}
		done.Go(func() {
			frame, err := r.next(context.Background(), 100<<20, readBufferBytes)
			assert.NoError(t, err)
			assert.Len(t, frame, frameBytes)
			r.close()
			_ = server.Close()
		})
	}
	require.Eventually(t, func() bool { // one has all it needs, two wait with 16 MiB each
		return memory.used.Load() == 32<<20 && huge.used.Load() == frameBytes
	}, time.Minute, time.Millisecond)
	// The one with all it needs copies what it had, and lets go of that.
	require.Eventually(t, func() bool {
		return heap()-before < int64(frameBytes+2*largeBufferBytes+8<<20)
	}, time.Minute, time.Millisecond)
	close(goOn)
	done.Wait()
	require.Equal(t, memory.total, heldNothing(memory))
	require.Equal(t, huge.total, heldNothing(huge))
}

// TestHangUpEndsAWaitingRequest: a client that leaves while its request waits for others is
// noticed, and one that sends more meanwhile is not taken for gone.
func TestHangUpEndsAWaitingRequest(t *testing.T) {
	entered, gate := make(chan struct{}, 1), make(chan struct{})
	ended := make(chan error, 1)
	s := startLine(t, Limits{}, handler{key: protocol.KeyJoinGroup, max: 9, waits: true,
		handle: func(_ *Server, ctx context.Context, r *request) (kmsg.Response, error) {
			entered <- struct{}{}
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-gate:
			}
			return r.message.ResponseKind(), nil
		}})
	t.Cleanup(func() { close(gate) })
	join := encodeRequest(1, kmsg.NewPtrJoinGroupRequest())

	leaving := s.dial(t)
	_, err := leaving.Write(join)
	require.NoError(t, err)
	<-entered
	require.NoError(t, leaving.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		require.Fail(t, "nobody tells the handler that its client has gone")
	}

	staying := s.dial(t)
	_, err = staying.Write(join)
	require.NoError(t, err)
	<-entered
	more := encodeRequest(2, apiVersionsRequest(3))
	_, err = staying.Write(more[:3])
	require.NoError(t, err)
	gate <- struct{}{}
	id, _ := readFrame(t, staying)
	require.Equal(t, int32(1), id)
	_, err = staying.Write(more[3:])
	require.NoError(t, err)
	id, _ = readFrame(t, staying)
	require.Equal(t, int32(2), id)
}
