package replay_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// What BenchmarkThrottledReplay does: history records are replayed at a rate while the live
// pipeline gets some of its own.
const (
	throttleHistory = 400_000
	throttleRate    = 20_000
	throttleLive    = 1_000 // per second
	throttleFor     = 8 * time.Second
)

// BenchmarkThrottledReplay tells how far a replay at a rate is from it, and the latency of the live
// pipeline (a record is written -> its result is read, committed) alone and beside the replay.
// Broker, pipeline and replay are in this process.
//
//	go test ./pipelines/replay -run XXX -bench ThrottledReplay -benchtime 1x
func BenchmarkThrottledReplay(b *testing.B) {
	for b.Loop() {
		throttled(b)
	}
}

const throttleYAML = `version: 1
pipeline: live
sources: {in: {topic: in, key: string}}
steps: [{filter: value.price * value.qty > 100 && value.country == "DE"}]
sinks: {out: {topic: out}}
`

func throttled(b *testing.B) {
	r := throttleRig{b, coretest.Start(b, coretest.Options{})}
	producer := r.connect()
	adm := kadm.NewClient(producer)
	_, err := adm.CreateTopics(b.Context(), 2, 1, nil, "in", "out")
	require.NoError(b, err)
	for i := range throttleHistory {
		producer.Produce(b.Context(), r.record(fmt.Sprint(i)), nil)
	}
	require.NoError(b, producer.Flush(b.Context()))
	ranges := map[int32]deploy.Span{}
	ends, err := adm.ListEndOffsets(b.Context(), "in")
	require.NoError(b, err)
	ends.Each(func(o kadm.ListedOffset) { ranges[o.Partition] = deploy.Span{To: o.Offset} })

	live := deploy.Revision{Name: "live", Number: 1, Text: throttleYAML, File: "live.yaml",
		Dir: b.TempDir(), Wanted: deploy.WantRunning}
	stop := r.start(live)
	r.latency(producer, time.Second) // it has caught up
	alone := r.latency(producer, throttleFor)

	shadow := live
	shadow.Name = "again"
	shadow.Replay = &deploy.Replay{Of: "live", Revision: 1, Prefix: "again", Rate: throttleRate,
		Ranges: map[string]map[int32]deploy.Span{"in": ranges}}
	began := time.Now()
	wait := r.start(shadow)
	beside := r.latency(producer, throttleFor)
	wait(false)
	took := time.Since(began)
	stop(true)

	rate := throttleHistory / took.Seconds()
	b.ReportMetric(rate, "rec/s")
	b.ReportMetric(100*(rate/throttleRate-1), "%off")
	b.ReportMetric(alone.Seconds()*1e3, "ms-p99-alone")
	b.ReportMetric(beside.Seconds()*1e3, "ms-p99-beside")
	b.ReportMetric(0, "ns/op")
}

type throttleRig struct {
	b       *testing.B
	cluster *coretest.Cluster
}

func (r throttleRig) connect(opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.Addr()),
		kgo.Dialer(r.cluster.Dialer()), kgo.ProducerLinger(0)}, opts...)...)
	require.NoError(r.b, err)
	r.b.Cleanup(c.Close)
	return c
}

func (r throttleRig) record(key string) *kgo.Record {
	return &kgo.Record{Topic: "in", Key: []byte(key), Value: fmt.Appendf(nil, `{"id":%q,"price":60,`+
		`"qty":2,"country":"DE","note":"%0120d"}`, key, 0)}
}

// start runs a pipeline; what it returns stops it, if told to, and waits for its end.
func (r throttleRig) start(rev deploy.Revision) (wait func(stop bool)) {
	ctx, cancel := context.WithCancel(r.b.Context())
	done := make(chan error, 1)
	instance, err := runner.New(runner.Options{StateDir: r.b.TempDir(),
		Cluster: func() (client.Cluster, error) {
			return client.NewKafka(client.Options{Seeds: []string{r.cluster.Addr()},
				Dialer: r.cluster.Dialer()})
		}}).Prepare(ctx, rev)
	require.NoError(r.b, err)
	go func() { done <- instance.Run(ctx) }()
	return func(stop bool) {
		if stop {
			cancel()
		}
		require.NoError(r.b, <-done)
		cancel()
	}
}

// latency writes records at the live rate for a while and returns the 99th percentile of the time
// until their results are read.
func (r throttleRig) latency(producer *kgo.Client, during time.Duration) time.Duration {
	reader := r.connect(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	ctx, cancel := context.WithTimeout(r.b.Context(), time.Minute)
	defer cancel()
	n := int(during.Seconds() * throttleLive)
	took := make(chan []time.Duration)
	go func() {
		var all []time.Duration
		for len(all) < n && ctx.Err() == nil {
			reader.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
				at, err := strconv.ParseInt(string(rec.Key), 10, 64)
				if err == nil && at > 1e15 {
					all = append(all, time.Since(time.Unix(0, at)))
				}
			})
		}
		took <- all
	}()
	tick := time.NewTicker(time.Second / throttleLive)
	defer tick.Stop()
	for sent := 0; ; {
		<-tick.C
		select {
		case all := <-took:
			require.NotEmpty(r.b, all)
			slices.Sort(all)
			return all[len(all)*99/100]
		default:
		}
		if sent < n+throttleLive { // those before the reader has found the end are not seen
			sent++
			producer.Produce(ctx, r.record(fmt.Sprint(time.Now().UnixNano())), nil)
		}
	}
}
