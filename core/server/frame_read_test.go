package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

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
		limitOf: limits.frame, idle: time.Minute, step: time.Minute}
	t.Cleanup(func() {
		r.close()
		_ = server.Close()
		<-done
		require.Equal(t, r.memory.total, heldNothing(r.memory))
		require.Equal(t, r.readers.total, heldNothing(r.readers))
	})
	return r
}

// TestFramesOfAnySizeArriveWhole: sizes around each step in which memory is claimed, one after the
// other. Produce is api key 0, so that the larger limit holds.
func TestFramesOfAnySizeArriveWhole(t *testing.T) {
	sizes := []int{
		100, readBufferBytes, readBufferBytes + 1, claimBytes - 1, claimBytes, claimBytes + 1,
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
	for sent, most := range map[int]int64{10: 0, readBufferBytes: claimBytes} {
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
	join := encodeRequest(1, kmsg.NewPtrJoinGroupRequest())

	leaving := s.dial(t)
	_, err := leaving.Write(join)
	require.NoError(t, err)
	<-entered
	require.NoError(t, leaving.Close())
	require.ErrorIs(t, <-ended, context.Canceled)

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
