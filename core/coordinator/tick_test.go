package coordinator_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// crowd has many deadlines that pass at once. An input is answered with how many are left.
type crowd struct {
	left   int
	ticked func(left int)
}

func (c *crowd) Handle(_ time.Time, t coordinator.Ticket, in any) coordinator.Step {
	if n, ok := in.(int); ok {
		c.left = n
	}
	return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: c.left}}}
}
func (c *crowd) Replay(record.Record) error { return nil }
func (c *crowd) Loaded(time.Time)           {}
func (c *crowd) NextDeadline() (time.Time, bool) {
	return time.Now().Add(-time.Second), c.left > 0
}
func (c *crowd) Tick(time.Time) coordinator.Step {
	c.left--
	c.ticked(c.left)
	return coordinator.Step{}
}

// TestRuntimeAnswersWhileManyTimersAreDue: 10,000 deadlines passed together; who asks after the
// first of them is not answered after the last.
func TestRuntimeAnswersWhileManyTimersAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 10_000
		var rt *coordinator.Runtime
		answer, ended := make(chan chan string, 1), make(chan struct{})
		machine := &crowd{ticked: func(left int) {
			switch left {
			case many - 1:
				answer <- ask(rt, "how many?")
			case 0:
				close(ended)
			}
		}}
		rt = coordinator.New(coordinator.Options{Log: &memLog{epoch: 1},
			NewMachine: func(int32) coordinator.Machine { return machine }})
		defer rt.Close()
		rt.Lead(0, 1)
		synctest.Wait()
		require.Equal(t, strconv.Itoa(many), <-ask(rt, many))
		left, err := strconv.Atoi(<-<-answer)
		require.NoError(t, err)
		require.Greater(t, left, many-100)
		<-ended
	})
}
