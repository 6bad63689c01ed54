package server

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// only returns the one connection of s.
func (s *lineServer) only(t testing.TB) *conn {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.mu.open, 1)
	for c := range s.mu.open {
		return c
	}
	return nil
}

// TestIdleLimitIsNotForAnswersThatAreRead: a client takes three minutes to read an answer that came
// while its request waited, and may be idle for one. It is not: it reads. The minute begins when it
// has read all, and then its end is no fault that anybody is told of.
func TestIdleLimitIsNotForAnswersThatAreRead(t *testing.T) {
	const size, step = 8 << 20, 128 << 10
	synctest.Test(t, func(t *testing.T) {
		s := startLine(t, Limits{IdleTimeout: time.Minute, StepTimeout: 30 * time.Second})
		client := s.dial(t)
		synctest.Wait()
		c := s.only(t)
		answerTo := c.out.begin()
		b := make([]byte, size)
		c.out.finish(answerTo, answer{bytes: &b}, false) // which gives it to others when it is written
		start := time.Now()
		for part, left := make([]byte, step), size; left > 0; left -= step {
			time.Sleep(3 * time.Second)
			_, err := io.ReadFull(client, part)
			require.NoError(t, err, "%v after the answer began", time.Since(start))
		}
		require.Greater(t, time.Since(start), 3*time.Minute)
		read := time.Now()
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.LessOrEqual(t, time.Since(read), 2*time.Minute)
		s.conns.Wait()
		require.Empty(t, s.log.String(), "an idle client is no fault")
		require.Zero(t, s.count.broken.Load())
	})
}

// TestHalfOpenReaderIsLetGo: a client that is gone without a word, while it is written to, is held
// for as long as a step of the answer may take, however short or long it may be idle.
func TestHalfOpenReaderIsLetGo(t *testing.T) {
	for _, idle := range []time.Duration{time.Second, 10 * time.Minute} {
		t.Run(idle.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startLine(t, Limits{IdleTimeout: idle, StepTimeout: 30 * time.Second})
				s.dial(t)
				synctest.Wait()
				c, start := s.only(t), time.Now()
				b := make([]byte, 4<<20)
				c.out.finish(c.out.begin(), answer{bytes: &b}, false)
				s.conns.Wait()
				require.GreaterOrEqual(t, time.Since(start), 26*time.Second)
				require.LessOrEqual(t, time.Since(start), 31*time.Second)
				require.Contains(t, s.log.String(), errSlowClient.Error())
				require.Equal(t, int64(1), s.count.broken.Load())
			})
		})
	}
}
