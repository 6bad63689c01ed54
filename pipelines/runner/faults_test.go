package runner_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/vfs"
)

// counted is a pipeline with state, a repartition, a topic sink and a file sink, over many records.
const counted = `version: 1
pipeline: p
on_end: close
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 3, key: value.id,
    event_time: 'parse_time(value.at, "rfc3339")'}
steps:
  - id: agg
    aggregate: {by: value.group, window: {tumbling: 1m}, emit: on_close, late: drop,
      fields: {n: count, s: {sum: value.n}}}
  - map: '{"g": key, "w": format_time(window.start, "15:04"), "n": value.n, "s": value.s}'
sinks:
  out: {topic: out}
  file: {connector: file, config: {path: DIR/out.ndjson}}
`

// countedInput has n records in each of the minutes, in groups of seven; want is what comes out.
func countedInput(minutes, n int) (text string, want []string) {
	var b strings.Builder
	for m := range minutes {
		count, sum := map[int]int{}, map[int]int{}
		for i := range n {
			fmt.Fprintf(&b, `{"id":"%d-%d","group":"g%d","n":%d,"at":"2026-01-01T00:%02d:%02dZ"}`+"\n",
				m, i, i%7, i, m, i*60/n)
			count[i%7]++
			sum[i%7] += i
		}
		for g := range count {
			want = append(want, fmt.Sprintf(`{"g":"g%d","w":"00:%02d","n":%d,"s":%d}`, g, m, count[g],
				sum[g]))
		}
	}
	return b.String(), want
}

// exact requires the results, each once, in both sinks.
func (r *rig) exact(want []string) {
	r.t.Helper()
	var got []string
	for _, rec := range r.read("out") {
		got = append(got, string(rec.Value))
	}
	require.ElementsMatch(r.t, want, got)
	require.ElementsMatch(r.t, want, r.lines("out.ndjson"))
}

// TestDiskFull: the broker's disk fills up in the middle: of records, or of the marker that lets
// them be read. The pipeline waits and says so, and when space returns it goes on; nothing is lost
// or doubled.
func TestDiskFull(t *testing.T) {
	for name, write := range map[string]int{"at once": 2, "in the middle": 4} {
		t.Run(name, func(t *testing.T) {
			fault := vfs.NewFault(vfs.NewMem())
			r := newRigOn(t, coretest.Options{FS: fault})
			text, want := countedInput(10, 700)
			r.file("in.jsonl", text)
			free := fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: "/p-in-0/", Nth: write,
				Err: syscall.ENOSPC})
			s := r.start(counted)
			s.until("it says so", func() bool {
				log := r.log.String()
				return strings.Contains(log, "the broker does not take records") ||
					strings.Contains(log, "what was committed cannot be read yet")
			})
			fault.SetSpace(0) // for all files
			free()
			fault.SetSpace(-1)
			require.NoError(t, s.wait())
			r.exact(want)
		})
	}
}

// TestWriteErrors: writes fail with EIO, upon which the broker gives up and is started again.
func TestWriteErrors(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	r := newRigOn(t, coretest.Options{FS: fault})
	text, want := countedInput(5, 700)
	r.file("in.jsonl", text)
	mend := fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: "/p-in-0/", Nth: 4, Err: syscall.EIO})
	s := r.start(counted)
	select {
	case <-r.cluster.Broker().Failed(): // it does not trust that disk any more
		mend()
		r.cluster.Restart()
	case err := <-s.done:
		t.Fatalf("the pipeline ended before the disk failed: %v", err)
	}
	s.persist(counted)
	r.exact(want)
}

// TestBrokerRestarts: the broker is closed and opened again while the pipeline runs.
func TestBrokerRestarts(t *testing.T) {
	r := newRig(t)
	text, want := countedInput(20, 700)
	r.file("in.jsonl", text)
	s := r.start(counted)
	for range 3 {
		s.until("it reads", s.reads)
		r.cluster.Restart()
	}
	s.persist(counted)
	r.exact(want)
}
