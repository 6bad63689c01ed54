package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/sdk"
	"github.com/millstream-io/millstream/streams/client"
)

// connectorArg is how this binary is told to be a connector's process.
const connectorArg = "connector-process"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == connectorArg {
		sdk.ServeBuiltin(os.Args[2], connectors.Builtin()...)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; on a busy machine it is long.
const patience = 60 * time.Second

// rig is a broker and what is needed to run pipelines on it.
type rig struct {
	t       *testing.T
	cluster *coretest.Cluster
	client  *kgo.Client
	state   string
	dir     string // of the pipeline's file
	log     lockedBuffer
	// processes runs connectors in processes of their own.
	processes bool
	extra     []sdk.Plugin
	hang      time.Duration // after which a plugin counts as hung
	grace     time.Duration // of a stop, 0 is the default
	vars      map[string]string
}

// lockedBuffer is what the pipelines under test have logged.
type lockedBuffer struct {
	mu struct {
		sync.Mutex
		buf bytes.Buffer
	}
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.buf.Write(p)
}

// String is all that was written so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.buf.String()
}

func newRig(t *testing.T) *rig { return newRigOn(t, coretest.Options{}) }

func newRigOn(t *testing.T, opts coretest.Options) *rig {
	t.Helper()
	r := &rig{t: t, cluster: coretest.Start(t, opts), state: t.TempDir(), dir: t.TempDir(),
		vars: map[string]string{}}
	r.client = r.connect(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	t.Cleanup(func() {
		r.client.Close()
		if t.Failed() {
			t.Logf("log of the pipelines:\n%s", r.log.String())
		}
	})
	return r
}

func (r *rig) connect(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	c, err := r.dial(opts...)
	require.NoError(r.t, err)
	return c
}

func (r *rig) dial(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.Addr()),
		kgo.Dialer(r.cluster.Dialer()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
}

// ctx ends when a test has waited long enough.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) topic(name string, partitions int32) {
	r.t.Helper()
	_, err := kadm.NewClient(r.client).CreateTopic(r.ctx(), partitions, 1, nil, name)
	require.NoError(r.t, err)
}

// produce writes values; "key=value" has a key.
func (r *rig) produce(topic string, values ...string) {
	r.t.Helper()
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: time.UnixMilli(1)}
		if key, value, ok := strings.Cut(v, "="); ok && !strings.HasPrefix(v, "{") {
			rec.Key, rec.Value = []byte(key), []byte(value)
		}
		r.write(rec)
	}
}

func (r *rig) write(recs ...*kgo.Record) {
	r.t.Helper()
	require.NoError(r.t, r.client.ProduceSync(r.ctx(), recs...).FirstErr())
}

// read returns what a topic has, in order of partition and offset.
func (r *rig) read(topic string) []*kgo.Record {
	r.t.Helper()
	ctx := r.ctx()
	ends, err := kadm.NewClient(r.client).ListEndOffsets(ctx, topic)
	require.NoError(r.t, err)
	if errors.Is(ends.Error(), kerr.UnknownTopicOrPartition) {
		return nil // not made yet
	}
	require.NoError(r.t, ends.Error())
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			at[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	c := r.connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer c.Close()
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		require.NoError(r.t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() { // the log may end with one
				all = append(all, rec)
			}
			if rec.Offset+1 >= left[rec.Partition] {
				delete(left, rec.Partition)
			}
		})
	}
	slices.SortStableFunc(all, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return all
}

// values are a topic's records as key=value, sorted.
func (r *rig) values(topic string) []string {
	r.t.Helper()
	var out []string
	for _, rec := range r.read(topic) {
		out = append(out, show(rec))
	}
	slices.Sort(out)
	return out
}

func show(rec *kgo.Record) string {
	if rec.Key == nil {
		return string(rec.Value)
	}
	return string(rec.Key) + "=" + string(rec.Value)
}

func header(rec *kgo.Record, key string) string {
	for _, h := range rec.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// file writes a file beside the pipeline's.
func (r *rig) file(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func (r *rig) newCluster() (client.Cluster, error) {
	return client.NewKafka(client.Options{Seeds: []string{r.cluster.Addr()},
		Dialer: r.cluster.Dialer(), Logger: r.logger(), FetchWait: 50 * time.Millisecond,
		StallAfter: 200 * time.Millisecond})
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *rig) runner() *runner.Runner {
	opts := runner.Options{Cluster: r.newCluster, StateDir: r.state, CacheDir: pluginCache,
		Connectors: append(connectors.Builtin(), r.extra...), Logger: r.logger(),
		HangTimeout: r.hang, StopGrace: r.grace}
	if r.processes {
		opts.ConnectorCommand = func(name string) (host.Command, error) {
			return host.Self(connectorArg, name)
		}
	}
	return runner.New(opts)
}

// revision makes one of a text, in which DIR is the folder of r.file.
func (r *rig) revision(yaml string) deploy.Revision {
	name := "p"
	yaml = strings.ReplaceAll(yaml, "DIR", r.dir)
	for line := range strings.Lines(yaml) {
		if n, ok := strings.CutPrefix(line, "pipeline: "); ok {
			name = strings.TrimSpace(n)
		}
	}
	return deploy.Revision{Name: name, Number: 1, Text: yaml, File: "pipeline.yaml", Dir: r.dir,
		Vars: r.vars, ID: "1"}
}

// prepare compiles a pipeline that must be right.
func (r *rig) prepare(yaml string) deploy.Instance {
	r.t.Helper()
	in, err := r.runner().Prepare(r.ctx(), r.revision(yaml))
	if findings, ok := err.(*runner.ErrFindings); ok {
		r.t.Fatalf("findings: %+v", findings.Findings)
	}
	require.NoError(r.t, err)
	return in
}

// plan compiles a pipeline without running it.
func (r *rig) plan(yaml string) *plan.Plan {
	r.t.Helper()
	catalog := runner.NewCatalog(runner.CatalogOptions{Build: true, Dir: r.dir,
		Connectors: append(connectors.Builtin(), r.extra...), CacheDir: pluginCache})
	defer catalog.Close()
	p, findings := runner.Compile(r.revision(yaml), catalog)
	require.NotNil(r.t, p, "%+v", findings)
	return p
}

// started is a pipeline at work.
type started struct {
	r    *rig
	in   deploy.Instance
	stop context.CancelFunc
	done chan error
}

func (r *rig) start(yaml string) *started {
	r.t.Helper()
	in := r.prepare(yaml)
	ctx, stop := context.WithCancel(context.Background())
	s := &started{r: r, in: in, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- in.Run(ctx) }()
	r.t.Cleanup(func() { stop(); s.done <- <-s.done })
	return s
}

// wait waits for the end of a run.
func (s *started) wait() error {
	s.r.t.Helper()
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-time.After(patience):
		s.r.t.Fatalf("the pipeline did not end; status %+v", s.in.Status())
		return nil
	}
}

// halt stops the run and waits for it.
func (s *started) halt() {
	s.r.t.Helper()
	s.stop()
	require.NoError(s.r.t, s.wait())
}

// run runs a bounded pipeline to its end.
func (r *rig) run(yaml string) deploy.Status {
	r.t.Helper()
	s := r.start(yaml)
	require.NoError(r.t, s.wait())
	return s.in.Status()
}

// await waits until the topic has these records, in any order.
func (s *started) await(topic string, want ...string) {
	s.r.t.Helper()
	slices.Sort(want)
	var got []string
	s.until(fmt.Sprintf("topic %s has %v", topic, want), func() bool {
		got = s.r.values(topic)
		return len(got) >= len(want)
	})
	require.Equal(s.r.t, want, got)
}

// until waits for a condition, and fails when the run ends before it.
func (s *started) until(what string, condition func() bool) {
	s.r.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case err := <-s.done:
			s.done <- err
			if !condition() {
				s.r.t.Fatalf("the pipeline ended before %s: %v", what, err)
			}
		case <-deadline:
			s.r.t.Fatalf("waited too long until %s; status %+v", what, s.in.Status())
		}
	}
}

// pluginCache keeps the plugins that the tests of this process build.
var pluginCache = filepath.Join(os.TempDir(), "millstream-runner-test-plugins")

// misbehave is the folder of the plugin that does as it is told.
func misbehave(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/misbehave")
	require.NoError(t, err)
	return dir
}

func mustInt(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// counters are those parts of a status that only records move.
func counters(st deploy.Status) []int64 {
	return []int64{st.RecordsIn, st.RecordsOut, st.Late, st.DeadLettered, st.Lag}
}

// lines are those of a file beside the pipeline's.
func (r *rig) lines(name string) []string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	require.NoError(r.t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// reads tells whether the first source has read anything.
func (s *started) reads() bool {
	sources := s.in.Status().Sources
	return len(sources) > 0 && sources[0].Records > 0
}

// persist waits for the end of a run, and starts it again where that is worth trying, as a worker
// does.
func (s *started) persist(yaml string) {
	s.r.t.Helper()
	for err := s.wait(); err != nil; err = s.wait() {
		require.ErrorIs(s.r.t, err, deploy.ErrTemporary)
		s = s.r.start(yaml)
	}
}

func (r *rig) cancelable() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}
