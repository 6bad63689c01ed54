package task

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/client"
)

// TestRuleB27_AnInputIsIdleAtItsEndOnly: one whose log has more is slow to come, and is waited for.
func TestRuleB27_AnInputIsIdleAtItsEndOnly(t *testing.T) {
	now := time.Now()
	in := &input{tp: client.TopicPartition{Topic: "a"}, at: 5, end: 6, idleAfter: time.Second,
		seen: now.Add(-time.Minute)}
	l := &loop{core: twoInputs(t).Core, inputs: []*input{in}, log: slog.New(slog.DiscardHandler)}
	require.Equal(t, time.Second, l.watchIdle(now), "it is looked at again")
	require.False(t, in.idle)
	in.at = 6
	l.watchIdle(now)
	require.True(t, in.idle)
}
