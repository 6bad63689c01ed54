package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/replay"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

type rig struct {
	t       *testing.T
	cluster *coretest.Cluster
	client  *kgo.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, cluster: coretest.Start(t, coretest.Options{})}
	var err error
	r.client, err = r.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(r.client.Close)
	return r
}

func (r *rig) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.Addr()),
		kgo.Dialer(r.cluster.Dialer())}, opts...)...)
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) topics(partitions int32, names ...string) {
	r.t.Helper()
	for _, name := range names {
		_, err := kadm.NewClient(r.client).CreateTopic(r.ctx(), partitions, 1, nil, name)
		require.NoError(r.t, err)
	}
}

// write writes values; an empty one is a record that only carries time.
func (r *rig) write(topic string, partition int32, values ...string) {
	r.t.Helper()
	at := int64(1000)
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v),
			Timestamp: time.UnixMilli(at), Headers: []kgo.RecordHeader{
				{Key: "ms-lane", Value: []byte("written by " + topic)}, {Key: "h", Value: []byte("x")}}}
		if v == "" {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "ms-watermark"})
		} else {
			at++
		}
		require.NoError(r.t, r.client.ProduceSync(r.ctx(), rec).FirstErr())
	}
}

func (r *rig) verify(want replay.Expectation) replay.Report {
	r.t.Helper()
	report, err := replay.Verify(r.ctx(), r.connect,
		[]replay.Pair{{Sink: "out", Live: "live", Shadow: "shadow"}}, want)
	require.NoError(r.t, err)
	return report
}

var everything = replay.Expectation{FromStart: true, ToEnd: true}

func TestEqualTopics(t *testing.T) {
	r := newRig(t)
	r.topics(2, "live", "shadow")
	r.write("live", 0, "a", "", "b", "")
	r.write("shadow", 0, "", "a", "b")
	r.write("live", 1, "c")
	r.write("shadow", 1, "c", "", "")
	report := r.verify(everything)
	require.True(t, report.Equal, "records that only carry time do not count: %+v", report)
	require.EqualValues(t, 3, report.Outputs[0].Compared)
	require.EqualValues(t, 3, report.Outputs[0].LiveRecords)
	require.EqualValues(t, 3, report.Outputs[0].ShadowRecords)
	require.Nil(t, report.FirstDifference)
}

func TestFirstDifferenceIsShown(t *testing.T) {
	r := newRig(t)
	r.topics(2, "live", "shadow")
	r.write("live", 0, "a")
	r.write("shadow", 0, "a")
	r.write("live", 1, "b", "c", "d")
	r.write("shadow", 1, "", "b", "X", "Y")
	report := r.verify(everything)
	require.False(t, report.Equal)
	diff := report.FirstDifference
	require.NotNil(t, diff)
	require.Equal(t, "live", diff.Live)
	require.EqualValues(t, 1, diff.Partition)
	require.Equal(t, &replay.Sample{Offset: 1, Timestamp: 1001, Value: "c"}, diff.LiveAt)
	require.Equal(t, &replay.Sample{Offset: 2, Timestamp: 1001, Value: "X"}, diff.ShadowAt)
}

func TestMissingOutputIsAnError(t *testing.T) {
	r := newRig(t)
	r.topics(1, "live")
	_, err := replay.Verify(r.ctx(), r.connect,
		[]replay.Pair{{Live: "live", Shadow: "shadow"}}, everything)
	require.ErrorIs(t, err, replay.ErrUnknownTopic)
}

// daily counts in windows, so that a replay of a part cannot rebuild the windows before it.
const daily = `version: 1
pipeline: daily
sources: {in: {topic: in, key: string, event_time: 'parse_time(value.at, "rfc3339")'}}
steps:
  - id: agg
    aggregate: {by: value.g, window: {tumbling: 1m}, emit: on_close, late: drop, fields: {n: count}}
  - set: {w: 'format_time(window.start, "15:04")'}
sinks: {out: {topic: out}}
`

// TestReplayOfARealPipeline runs it live, then replays all of its input and a part, and compares.
func TestReplayOfARealPipeline(t *testing.T) {
	r := newRig(t)
	r.topics(1, "in", "out")
	const minutes, each = 10, 20
	for m := range minutes {
		for i := range each {
			require.NoError(t, r.client.ProduceSync(r.ctx(), &kgo.Record{Topic: "in",
				Key: []byte("k"), Value: fmt.Appendf(nil, `{"g":"g%d","at":"2026-01-01T00:%02d:%02dZ"}`,
					i%3, m, i)}).FirstErr())
		}
	}
	live := deploy.Revision{Name: "daily", Number: 1, Text: daily, File: "daily.yaml",
		Dir: t.TempDir(), Wanted: deploy.WantRunning}
	ctx, stop := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- r.run(ctx, live) }()
	require.Eventually(t, func() bool { return r.end("out") >= 3*(minutes-1) }, time.Minute,
		20*time.Millisecond, "all windows but the last close")
	stop()
	require.NoError(t, <-done)

	r.replay(live, "all", deploy.Span{To: minutes * each})
	report := r.compare("all", everything)
	require.True(t, report.Equal, "%+v", report)
	require.EqualValues(t, 3*(minutes-1), report.Outputs[0].Compared)

	r.replay(live, "part", deploy.Span{From: 70, To: 170}) // 00:03:10 to 00:08:09
	report = r.compare("part", replay.Expectation{})
	require.True(t, report.Equal, "%+v", report)
	require.EqualValues(t, 3*4, report.Outputs[0].Compared, "00:04 to 00:07 lie within it")
	require.EqualValues(t, 3*4, report.Outputs[0].Before, "00:00 to 00:03")

	changed := live
	changed.Text = daily[:len(daily)-len("sinks: {out: {topic: out}}\n")] +
		"  - set: {extra: 1}\nsinks: {out: {topic: out}}\n"
	r.replay(changed, "changed", deploy.Span{To: minutes * each})
	report = r.compare("changed", everything)
	require.False(t, report.Equal)
	require.Contains(t, report.FirstDifference.ShadowAt.Value, `"extra":1`)
	require.NotContains(t, report.FirstDifference.LiveAt.Value, "extra")
}

func (r *rig) run(ctx context.Context, rev deploy.Revision) error {
	instance, err := runner.New(runner.Options{StateDir: r.t.TempDir(),
		Cluster: func() (client.Cluster, error) {
			return client.NewKafka(client.Options{Seeds: []string{r.cluster.Addr()},
				Dialer: r.cluster.Dialer(), FetchWait: 50 * time.Millisecond})
		}}).Prepare(ctx, rev)
	if err != nil {
		return err
	}
	return instance.Run(ctx)
}

func (r *rig) replay(of deploy.Revision, name string, span deploy.Span) {
	r.t.Helper()
	of.Name = name
	of.Replay = &deploy.Replay{Of: "daily", Revision: 1, Prefix: name,
		Ranges: map[string]map[int32]deploy.Span{"in": {0: span}}}
	require.NoError(r.t, r.run(r.ctx(), of))
}

func (r *rig) compare(name string, want replay.Expectation) replay.Report {
	r.t.Helper()
	report, err := replay.Verify(r.ctx(), r.connect,
		[]replay.Pair{{Sink: "out", Live: "out", Shadow: runner.ShadowTopic(name, "out")}}, want)
	require.NoError(r.t, err)
	return report
}

func (r *rig) end(topic string) int64 {
	ends, err := kadm.NewClient(r.client).ListEndOffsets(r.ctx(), topic)
	if err != nil || ends.Error() != nil {
		return 0
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}
