package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/topology"
)

// TestStateIsUnfiledWhereItRuns: a task that went elsewhere or stopped has no file to write here,
// so what kept it from that is over.
func TestStateIsUnfiledWhereItRuns(t *testing.T) {
	full := client.Trouble{Since: time.Unix(1, 0), Error: "no space left on device"}
	for phase, want := range map[Phase]client.Trouble{
		Running: full, Restoring: {}, Standby: {}, Stopped: {}, Failed: {}, Done: {},
	} {
		s := &seat{sub: &topology.Sub{}}
		s.status.phase(Running)
		s.status.mu.unfiled = full
		s.status.phase(phase)
		require.Equal(t, want, s.snapshot().Unfiled, phase)
	}
}
