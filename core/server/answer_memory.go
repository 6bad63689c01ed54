package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxHeldAnswers is how many bytes of answers a connection may leave unread, in bytes, before
	// its next request is read. One more answer may come on top.
	maxHeldAnswers = 1 << 20
	// largeAnswer is the size from which answers count as large, in bytes.
	largeAnswer = 1 << 20
)

// errAnswersFull tells that an answer found no room: other clients do not read theirs.
var errAnswersFull = errors.New("answers that clients do not read take up the memory " +
	"(queued.max.request.bytes)")

// answerMemory bounds what answers take that are in memory, which those to Fetch are not.
type answerMemory struct {
	// large counts the bytes of large answers that are not written yet.
	large atomic.Int64
	// limit bounds large, in bytes.
	limit int64
	// builders has a token for each request in work whose answer grows with what the broker has.
	builders chan struct{}
}

func newAnswerMemory(limit int64) answerMemory {
	return answerMemory{
		limit: limit, builders: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
}

// lists tells which requests of a few bytes have answers as long as what the broker knows. Many
// clients that ask at once would hold as many copies of it. Metadata of named topics is none: it
// may wait for topics to be created.
func lists(message kmsg.Request) bool {
	switch m := message.(type) {
	case *kmsg.MetadataRequest:
		return len(m.Topics) == 0
	case *kmsg.OffsetFetchRequest, *kmsg.ListGroupsRequest, *kmsg.DescribeConfigsRequest,
		*kmsg.DescribeLogDirsRequest, *kmsg.ListConfigResourcesRequest,
		*kmsg.DescribeTopicPartitionsRequest, *kmsg.ListTransactionsRequest:
		return true
	}
	return false
}

// build waits for its turn if the answer to message is a list. It returns what ends it, and how
// long it had to wait, in nanoseconds.
func (m *answerMemory) build(
	ctx context.Context, message kmsg.Request,
) (done func(), waited int64, err error) {
	if !lists(message) {
		return func() {}, 0, nil
	}
	done = func() { <-m.builders }
	select {
	case m.builders <- struct{}{}:
		return done, 0, nil
	default:
	}
	began := clock()
	select {
	case m.builders <- struct{}{}:
		return done, clock() - began, nil
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// admit counts a, or refuses it. One alone is never too large.
func (m *answerMemory) admit(a answer) answer {
	n := int64(len(*a.bytes))
	if n < largeAnswer {
		return a
	}
	if sum := m.large.Add(n); sum > m.limit && sum > n {
		m.large.Add(-n)
		return answer{err: fmt.Errorf("answer of %d bytes: %w", n, errAnswersFull)}
	}
	a.large = &m.large
	return a
}
