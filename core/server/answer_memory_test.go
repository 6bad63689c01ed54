package server

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSlowReaderHoldsFewAnswers: a client that asks 200 times and reads nothing, while a writer is
// busy with its first answer, is served until 1 MiB waits for it, and the rest when it has read.
func TestSlowReaderHoldsFewAnswers(t *testing.T) {
	const requests, size = 200, 300 << 10
	synctest.Test(t, func(t *testing.T) {
		client, broker := net.Pipe()
		var writers sync.WaitGroup
		q := &answerQueue{writers: &writers, broken: func(err error) { t.Error(err) },
			w: &answerWriter{conn: broker, step: time.Hour, written: func(int) {}}}
		q.mu.notFull = sync.NewCond(&q.mu)
		var answered atomic.Int32
		go func() {
			for range requests {
				s := q.begin()
				b := make([]byte, size)
				q.finish(s, answer{bytes: &b}, false)
				answered.Add(1)
			}
		}()
		synctest.Wait()
		require.Equal(t, int32(4), answered.Load(), "4 answers are the first sum above 1 MiB")
		got := 0
		for buf := make([]byte, 1<<20); got < requests*size; {
			n, err := client.Read(buf)
			require.NoError(t, err)
			got += n
		}
		synctest.Wait()
		require.Equal(t, int32(requests), answered.Load())
		require.Zero(t, q.mu.held)
		writers.Wait()
	})
}

// listGroups answers with size bytes, or as enter says.
func listGroups(size int, enter func()) handler {
	return handler{key: 16, max: 5,
		handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
			enter()
			resp := r.message.ResponseKind().(*kmsg.ListGroupsResponse)
			resp.Groups = make([]kmsg.ListGroupsResponseGroup, 1)
			resp.Groups[0].Group = string(make([]byte, size))
			return resp, nil
		}}
}

// TestLargeAnswersOfAllAreBounded: two clients leave 2 MiB unread each, of 5 MiB that are allowed:
// a third one's is refused by closing its connection, small answers go on, and so do large ones
// when the two are gone.
func TestLargeAnswersOfAllAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startLine(t, Limits{}, listGroups(2<<20, func() {}))
		s.answers.limit = 5 << 20
		list := encodeRequest(1, kmsg.NewPtrListGroupsRequest())
		var slow []net.Conn
		for range 2 {
			c := s.dial(t)
			_, err := c.Write(list)
			require.NoError(t, err)
			slow = append(slow, c)
		}
		synctest.Wait()
		refused := s.dial(t)
		_, err := refused.Write(list)
		require.NoError(t, err)
		requireClosed(t, refused)
		synctest.Wait()
		require.Contains(t, s.log.String(), errAnswersFull.Error())
		other := s.dial(t)
		_, err = other.Write(encodeRequest(2, apiVersionsRequest(3)))
		require.NoError(t, err)
		readFrame(t, other)
		for _, c := range slow {
			require.NoError(t, c.Close())
		}
		synctest.Wait()
		require.Zero(t, s.answers.large.Load())
		_, err = other.Write(list)
		require.NoError(t, err)
		_, rest := readFrame(t, other)
		require.Greater(t, len(rest), 2<<20)
	})
}

// TestListsAreBuiltAFewAtATime: of 100 clients that ask for all groups at once, only as many hold
// such a list as there is use for, and those that leave meanwhile are forgotten.
func TestListsAreBuiltAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int32
		gate := make(chan struct{})
		s := startLine(t, Limits{}, listGroups(10, func() { inside.Add(1); <-gate }))
		var conns []net.Conn
		for range 100 {
			c := s.dial(t)
			_, err := c.Write(encodeRequest(1, kmsg.NewPtrListGroupsRequest()))
			require.NoError(t, err)
			conns = append(conns, c)
		}
		synctest.Wait()
		require.Equal(t, int32(2*runtime.GOMAXPROCS(0)), inside.Load())
		close(gate)
		for _, c := range conns {
			readFrame(t, c)
		}
		require.Equal(t, int32(100), inside.Load())
	})
}
