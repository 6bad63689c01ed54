package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// A file may have grown since the run that read it to its end: an end is told anew in each run, to
// the task that reads it and by that task to those behind it.
func TestCoreEndIsOfOneRun(t *testing.T) {
	for sub, end := range []func(c *coreTest){
		func(c *coreTest) { c.EndOfInput("a", 0) },
		func(c *coreTest) {
			c.add(c.Inputs()[0].Topic, "", "", 0, record.Header{Key: LaneHeader, Value: AppendLane(nil,
				Lane{Writer: "app.a.0", Control: true, Ended: true})})
		},
	} {
		c := newCoreTest(t, keyed(), sub)
		for range 2 {
			require.False(t, c.Done())
			end(c)
			c.run()
			require.True(t, c.Done())
			if told := c.watermarks(); sub == 0 {
				require.True(t, told[len(told)-1].Ended)
			}
			c.restart(c.Snapshot())
		}
	}
}
