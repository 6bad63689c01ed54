package client

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestNotYetIsWhatMayChange: what a broker answers while a partition is on its way is asked again;
// what will not change is not, nor what is no answer of a broker.
func TestNotYetIsWhatMayChange(t *testing.T) {
	again := []error{kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition,
		kerr.LeaderNotAvailable, kerr.CoordinatorLoadInProgress}
	for _, err := range again {
		require.True(t, notYet(fmt.Errorf("list offsets of a-0: %w", domain(err))), "%v", err)
	}
	for _, err := range []error{nil, ErrUnknownTopic, errors.New("dial"),
		kerr.TopicAuthorizationFailed, kerr.OffsetOutOfRange} {
		require.False(t, notYet(err), "%v", err)
	}
}
