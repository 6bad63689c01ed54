package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// fromTopic reads a topic that somebody else fills; START is more of the source.
const fromTopic = `version: 1
pipeline: p
sources: {in: {topic: in, key: string, START}}
steps: [{map: value}]
sinks: {out: {topic: out}}
`

// TestTopicSourceGoesOn: a pipeline over a topic runs until it is stopped, and a later start goes
// on where it was.
func TestTopicSourceGoesOn(t *testing.T) {
	r := newRig(t)
	r.topic("in", 2)
	r.produce("in", "a=1", "b=2")
	yaml := strings.Replace(fromTopic, "START", "start: earliest", 1)
	s := r.start(yaml)
	s.await("out", "a=1", "b=2")
	r.produce("in", "c=3")
	s.await("out", "a=1", "b=2", "c=3")
	require.Equal(t, deploy.Running, s.in.Status().State)
	s.halt()
	r.produce("in", "d=4")
	s = r.start(yaml)
	s.await("out", "a=1", "b=2", "c=3", "d=4")
	s.until("it has committed", func() bool { return s.in.Status().Lag == 0 })
	st := s.in.Status()
	require.EqualValues(t, 4, st.RecordsIn, "counted since the first record, not since the start")
	s.halt()
}

func TestStartLatestAndAtATime(t *testing.T) {
	for name, tc := range map[string]struct {
		start string
		want  []string
	}{
		"latest":  {"start: latest", []string{"new=3"}},
		"at time": {`start: {timestamp: "2026-01-01T00:00:00Z"}`, []string{"late=2", "new=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.topic("in", 1)
			old := time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
			for i, key := range []string{"old", "late"} {
				r.write(&kgo.Record{Topic: "in", Key: []byte(key), Value: fmt.Append(nil, i+1),
					Timestamp: old.AddDate(0, 0, i)})
			}
			s := r.start(strings.Replace(fromTopic, "START", tc.start, 1))
			s.until("it runs", func() bool { return s.in.Status().State == deploy.Running })
			r.write(&kgo.Record{Topic: "in", Key: []byte("new"), Value: []byte("3"),
				Timestamp: old.AddDate(0, 0, 9)})
			s.await("out", tc.want...)
			s.halt()
			s = r.start(strings.Replace(fromTopic, "START", tc.start, 1))
			r.produce("in", "more=4")
			s.await("out", append(tc.want, "more=4")...)
			s.halt()
		})
	}
}

// TestFollowedFile: lines are processed as they are written, also those written while it was
// stopped.
func TestFollowedFile(t *testing.T) {
	r := newRig(t)
	path := r.file("in.jsonl", `"a"`+"\n")
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	yaml := `version: 1
pipeline: p
sources:
  in: {connector: file, config: {path: DIR/in.jsonl, follow: true, poll: 10ms}, partitions: 2}
sinks: {out: {topic: out}}
`
	s := r.start(yaml)
	s.await("out", `"a"`)
	add(`"b"` + "\n" + `"half`)
	s.await("out", `"a"`, `"b"`)
	s.halt()
	add(` line"` + "\n" + `"c"` + "\n")
	s = r.start(yaml)
	s.await("out", `"a"`, `"b"`, `"half line"`, `"c"`)
	s.halt()
}

// TestLateRecordsAreCountedAndReported with the window and the time they missed.
func TestLateRecordsAreCountedAndReported(t *testing.T) {
	at := func(minute int) string {
		return fmt.Sprintf(`{"n":1,"at":"2026-01-01T00:%02d:00Z"}`+"\n", minute)
	}
	for name, tc := range map[string]struct {
		late string
		dead int64
	}{
		"drop": {"drop", 0}, "dlq": {"dlq", 2}, "topic": {"{topic: late}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.file("in.jsonl", at(0)+at(5)+at(1)+at(6)+at(2))
			yaml := `version: 1
pipeline: p
on_end: close
on_error: {then: stop, dlq: dead}
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 1, key: '"k"',
    event_time: 'parse_time(value.at, "rfc3339")'}
steps:
  - id: agg
    aggregate: {window: {tumbling: 1m}, emit: on_close, late: ` + tc.late + `, fields: {n: count}}
sinks: {out: {topic: out}}
`
			if tc.dead == 0 {
				yaml = strings.Replace(yaml, "on_error: {then: stop, dlq: dead}\n", "", 1)
			}
			st := r.run(yaml)
			require.EqualValues(t, 2, st.Late)
			require.Equal(t, tc.dead, st.DeadLettered)
			require.EqualValues(t, 5, st.RecordsIn)
			require.Len(t, r.read("out"), 3)
			require.Contains(t, r.log.String(), "records came late")
			require.Contains(t, r.log.String(), "stream time is 2026-01-01T00:06:00Z")
			require.Contains(t, r.log.String(), "window [2026-01-01T00:02:00Z, 2026-01-01T00:03:00Z)")
			if name == "topic" {
				require.Len(t, r.read("late"), 2)
			}
			again := r.run(yaml)
			require.Equal(t, counters(st), counters(again))
			require.Len(t, r.read("out"), 3, "no window opens again")
		})
	}
}

// TestTwoPipelinesAtOnce read the same topic and do not disturb each other when one fails.
func TestTwoPipelinesAtOnce(t *testing.T) {
	r := newRig(t)
	r.topic("in", 2)
	yaml := func(name, step string) string {
		return "version: 1\npipeline: " + name + "\nsources: {in: {topic: in, key: string}}\n" +
			"steps: [" + step + "]\nsinks: {out: {topic: out-" + name + "}}\n"
	}
	good, bad := r.start(yaml("good", "{map: value}")), r.start(yaml("bad", "{map: value.x * 2}"))
	r.produce("in", "a=1")
	require.ErrorContains(t, bad.wait(), "class expr")
	good.await("out-good", "a=1")
	r.produce("in", "b=2")
	good.await("out-good", "a=1", "b=2")
	good.halt()
}

// windowed counts by key in windows that close by time; FILTER may change, FIELDS may not.
const windowed = `version: 1
pipeline: p
sources: {in: {topic: in, key: string, event_time: 'parse_time(value.at, "rfc3339")'}}
steps:
  - filter: FILTER
  - {id: agg, aggregate: {window: {tumbling: 1h}, emit: on_close, late: drop, fields: {FIELDS}}}
sinks: {out: {topic: out}}
`

// TestChangeWhileRunning goes through the control topics: a changed filter keeps what windows have
// counted, a change that would lose it is refused and the old revision goes on.
func TestChangeWhileRunning(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	store, err := deploy.OpenStore(r.ctx(), r.dial)
	require.NoError(t, err)
	statuses := make(chan deploy.Status, 1000)
	stop := r.reconcile(store, statuses)
	apply := func(filter, fields string) {
		rev := r.revision(strings.NewReplacer("FILTER", filter, "FIELDS", fields).Replace(windowed))
		_, err := store.Apply(r.ctx(), rev)
		require.NoError(t, err)
	}
	event := func(at string, n int) {
		r.write(&kgo.Record{Topic: "in", Key: []byte("k"),
			Value: fmt.Appendf(nil, `{"n":%d,"at":"2026-01-01T%s:00Z"}`, n, at)})
	}
	apply("value.n > 0", "n: count")
	event("00:01", 1)
	event("00:02", 5)
	until(t, statuses, func(st deploy.Status) bool { return st.RecordsIn == 2 && st.Lag == 0 })
	apply("value.n > 3", "n: count")
	until(t, statuses, func(st deploy.Status) bool {
		return st.Revision == 2 && st.State == deploy.Running
	})
	event("00:03", 1) // does not pass any more
	event("00:04", 7)
	apply("value.n > 3", "n: count, s: {sum: value.n}")
	st := until(t, statuses, func(st deploy.Status) bool { return st.Error != "" })
	require.Equal(t, deploy.Running, st.State)
	require.Equal(t, 2, st.Revision)
	require.Contains(t, st.Error, "the change would lose state: step agg")
	event("02:00", 9)
	s := &started{r: r, done: make(chan error, 1), in: nothing{}}
	s.await("out", `k={"n":3}`)
	stop()
	store.Close()
}

// nothing stands for an instance that the reconciler runs.
type nothing struct{ deploy.Instance }

func (nothing) Status() deploy.Status { return deploy.Status{} }

// reconcile runs the pipelines of the store as a worker does.
func (r *rig) reconcile(store *deploy.Store, statuses chan<- deploy.Status) (stop func()) {
	rec := deploy.NewReconciler(deploy.ReconcilerOptions{Store: store, Launcher: r.runner(),
		Logger: r.logger(), OnStatus: func(st deploy.Status) { statuses <- st }})
	s := &started{r: r, done: make(chan error, 1)}
	ctx, cancel := r.cancelable()
	go func() { s.done <- rec.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); s.done <- <-s.done })
	return func() {
		cancel()
		require.NoError(r.t, s.wait())
	}
}

func until(
	t *testing.T, statuses <-chan deploy.Status, fits func(deploy.Status) bool,
) deploy.Status {
	t.Helper()
	limit := time.After(patience)
	var last deploy.Status
	for {
		select {
		case last = <-statuses:
			if fits(last) {
				return last
			}
		case <-limit:
			t.Fatalf("no such status; the last was %+v", last)
		}
	}
}

// TestConnectorsInTheirOwnProcesses: the same run with each connector as a process, its paths
// relative to the folder of the pipeline.
func TestConnectorsInTheirOwnProcesses(t *testing.T) {
	r := newRig(t)
	r.processes = true
	text, want := countedInput(3, 100)
	r.file("in.jsonl", text)
	r.run(strings.ReplaceAll(counted, "DIR/", ""))
	r.exact(want)
	require.FileExists(t, filepath.Join(r.dir, "out.ndjson"))
}

func TestLosingChangeIsAnErrorOfItsOwn(t *testing.T) {
	r := newRig(t)
	old := r.prepare(strings.NewReplacer("FILTER", "true", "FIELDS", "n: count").Replace(windowed))
	now := r.prepare(strings.NewReplacer("FILTER", "true", "FIELDS", "m: count").Replace(windowed))
	require.ErrorIs(t, now.Replaces(old), runner.ErrLosesState)
	require.NoError(t, old.Replaces(old))
}

// TestConnectorProcessesAreKilled: the file source and the file sink die by SIGKILL while they
// work, several times; the file has every result once.
func TestConnectorProcessesAreKilled(t *testing.T) {
	r := newRig(t)
	r.processes = true
	text, want := countedInput(20, 700)
	r.file("in.jsonl", text)
	s := r.start(counted)
	for range 3 {
		s.until("it reads", s.reads)
		for _, pid := range children(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
		}
	}
	require.NoError(t, s.wait())
	r.exact(want)
	require.Positive(t, s.in.Status().Restarts)
}

// children are the connector processes this one has started.
func children(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, mustInt(t, filepath.Base(filepath.Dir(path))))
		}
	}
	return pids
}
