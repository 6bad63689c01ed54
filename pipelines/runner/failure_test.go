package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

// TestTroubleThatMayPassIsTemporary: of a disk and of a broker. What would come again at the next
// start is not, or the pipeline would be started for ever.
func TestTroubleThatMayPassIsTemporary(t *testing.T) {
	for _, cause := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, task.ErrStateFull,
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &kgo.ErrFirstReadEOF{},
		kgo.ErrRecordTimeout, kerr.NotLeaderForPartition, kerr.UnknownProducerID,
	} {
		require.ErrorIs(t, classifyEnd(fmt.Errorf("run: %w", cause)), deploy.ErrTemporary, "%T %v",
			cause, cause)
	}
	for _, cause := range []error{
		errors.New("a record"), task.ErrPosition, task.ErrTopics, task.ErrStateLost, state.ErrMismatch,
		kerr.TopicAuthorizationFailed,
	} {
		require.NotErrorIs(t, classifyEnd(fmt.Errorf("run: %w", cause)), deploy.ErrTemporary, "%v", cause)
	}
	require.NoError(t, classifyEnd(nil))
}

// TestADeletedTopicOfAPatternIsLeftOut: creating it anew or a reset would lose state.
func TestADeletedTopicOfAPatternIsLeftOut(t *testing.T) {
	first := "run: " + task.ErrTopics.Error() + "; if a topic of a pattern was deleted: millstream" +
		" pipeline apply FILE leaves it out"
	require.Contains(t, withWayBack("p", true, fmt.Errorf("run: %w", task.ErrTopics)).Error(), first)
	for _, err := range []error{withWayBack("p", false, task.ErrTopics),
		withWayBack("p", true, task.ErrStateLost)} {
		require.NotContains(t, err.Error(), "pattern")
		require.Contains(t, err.Error(), "millstream pipeline reset p --to start")
	}
}
