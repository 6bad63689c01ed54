package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs/smalldisk"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// TestStateDiskFull runs a pipeline whose state files are on a disk of 2 MiB that fills up: a
// process in a mount namespace of its own. Results go on coming, the status says since when, which
// task, what the disk said and where to make room; with room the file is written by itself, and a
// restart counts each record once.
func TestStateDiskFull(t *testing.T) {
	smalldisk.Run(t, 2<<20, func(dir string) { onFullState(t, dir) })
}

func onFullState(t *testing.T, dir string) {
	r := newRig(t)
	r.state = dir
	r.topic("in", 1)
	s := r.start(sums)
	r.produce("in", `a={"n":0}`)
	s.await("out", `a={"s":1}`)

	remove := smalldisk.Fill(t, dir)
	want := []string{`a={"s":1}`}
	for i := range 40 { // more than the free pages of the file take
		key := fmt.Sprintf("%d%s", i, strings.Repeat("x", 2000))
		r.produce("in", key+`={"n":0}`, `a={"n":0}`)
		want = append(want, key+`={"s":1}`, fmt.Sprintf(`a={"s":%d}`, i+2))
	}
	s.until("the status says so", func() bool { return s.in.Status().State == deploy.Degraded })
	trouble := s.in.Status().Trouble
	for _, part := range []string{"flush state of p.in.0", "no space left on device"} {
		require.Contains(t, trouble.Error, part)
	}
	require.Contains(t, trouble.Do, "task in.0 keeps what is committed in its changelog")
	require.Contains(t, trouble.Do, "make room below "+dir)
	row := s.in.Status().Tasks[0].Trouble // what a worker that does not speak for the pipeline tells
	require.NotNil(t, row)
	require.Contains(t, row.Do, "make room below "+dir)
	s.await("out", want...)

	remove()
	s.until("it is over", func() bool { return s.in.Status().State == deploy.Running })
	require.Nil(t, s.in.Status().Trouble)
	s.halt()
	restored := strings.Count(r.log.String(), "state restored")
	s = r.start(sums)
	r.produce("in", `a={"n":0}`)
	s.await("out", append(want, `a={"s":42}`)...)
	require.Equal(t, restored, strings.Count(r.log.String(), "state restored"), "the file has it all")
}
