package core_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// values reads the values of a topic from its start until there are n.
func values(ctx context.Context, t testing.TB, c *coretest.Cluster, topic string, n int) []string {
	t.Helper()
	cl := c.Client(kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	var got []string
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

// TestSecondProcessIsRefused: the data directory has one owner, and the refusal names its pid.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	open := func() (*core.Broker, error) {
		return core.Open(context.Background(), core.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	}
	first, err := open()
	require.NoError(t, err)
	_, err = open()
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprint(os.Getpid()))
	require.NoError(t, first.Close(context.Background()))
	again, err := open()
	require.NoError(t, err)
	require.NoError(t, again.Close(context.Background()))
	require.DirExists(t, filepath.Join(dir, "data"))
	require.DirExists(t, filepath.Join(dir, "raft"))
}

func TestOpenRefusesBadOptions(t *testing.T) {
	network := vnet.NewPipe()
	taken, err := network.Listen(context.Background(), "broker:1")
	require.NoError(t, err)
	defer taken.Close()
	for name, v := range map[string]struct {
		opts core.Options
		text string
	}{
		"no directory":    {core.Options{}, "no data directory"},
		"negative id":     {core.Options{DataDir: "/d", NodeID: -1}, "negative"},
		"unknown setting": {core.Options{DataDir: "/d", Config: map[string]string{"x": "1"}}, "x"},
		"bad setting": {core.Options{DataDir: "/d",
			Config: map[string]string{"num.partitions": "many"}}, "num.partitions"},
		"taken address": {core.Options{DataDir: "/d", Listen: "broker:1"}, "listen"},
		"no advertisable address": {core.Options{DataDir: "/d", Listen: "0.0.0.0:5"},
			"advertised host"},
	} {
		t.Run(name, func(t *testing.T) {
			v.opts.FS, v.opts.Net = vfs.NewMem(), network
			_, err := core.Open(context.Background(), v.opts)
			require.ErrorContains(t, err, v.text)
		})
	}
}

// TestAnotherNodeIDIsRefused: partitions belong to the node that made them.
func TestAnotherNodeIDIsRefused(t *testing.T) {
	disk, network := vfs.NewMem(), vnet.NewPipe()
	opts := core.Options{DataDir: "/d", Listen: "broker:1", FS: disk, Net: network, NodeID: 1}
	b, err := core.Open(context.Background(), opts)
	require.NoError(t, err)
	require.NoError(t, b.Close(context.Background()))
	opts.NodeID = 2
	_, err = core.Open(context.Background(), opts)
	require.Error(t, err)
}

// TestAcknowledgedSurvivesCrashes: every record that was acknowledged is there after a power cut,
// in order, once; topics, groups and settings too.
func TestAcknowledgedSurvivesCrashes(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	ctx := testContext(t)
	adm := kadm.NewClient(c.Client())
	_, err := adm.CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	n := 0
	for round := range 4 {
		cl := c.Client(kgo.ProducerLinger(0))
		for range 50 {
			r := &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "v%d", n)}
			require.NoError(t, cl.ProduceSync(ctx, r).FirstErr())
			n++
		}
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "t", At: int64(n), LeaderEpoch: -1})
		require.NoError(t, kadm.NewClient(cl).CommitAllOffsets(ctx, "g", offsets))
		cl.Close()
		if round%2 == 0 {
			c.Crash()
		} else {
			c.Restart()
		}
		got := values(ctx, t, c, "t", n)
		require.Len(t, got, n)
		for i, v := range got {
			require.Equal(t, fmt.Sprintf("v%d", i), v)
		}
		committed, err := kadm.NewClient(c.Client()).FetchOffsets(ctx, "g")
		require.NoError(t, err)
		at, ok := committed.Lookup("t", 0)
		require.True(t, ok)
		require.Equal(t, int64(n), at.At)
	}
}

// TestFullDisk: writes are refused while the disk is full, nothing acknowledged is lost, and it
// goes on when there is space.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	ctx := testContext(t)
	_, err := kadm.NewClient(c.Client()).CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	cl := c.Client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	write := func(v string) error {
		return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(v)}).FirstErr()
	}
	require.NoError(t, write("before"))
	disk.SetSpace(10)
	require.ErrorIs(t, write("refused"), kerr.KafkaStorageError)
	require.Regexp(t, `write refused.*append to t-0: no space left`, c.Log(), "the operator is told")
	require.Equal(t, []string{"before"}, values(ctx, t, c, "t", 1), "reading goes on")
	disk.SetSpace(-1)
	require.NoError(t, write("after"))
	require.Equal(t, []string{"before", "after"}, values(ctx, t, c, "t", 2))
}

// TestTopicMadeOnAFullDisk: its partition is served soon after there is space, without any change
// of the metadata and without a restart.
func TestTopicMadeOnAFullDisk(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	ctx := testContext(t)
	freed := disk.Inject(vfs.Rule{Op: vfs.OpMkdir, Path: "/t-0", Err: syscall.ENOSPC})
	_, err := kadm.NewClient(c.Client()).CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	require.Regexp(t, `cannot apply the metadata.*t-0.*no space left`, c.Log())
	freed()
	// Not idempotent: the first producer id would be such a change.
	cl := c.Client(kgo.DisableIdempotentWrite(), kgo.MetadataMinAge(10*time.Millisecond))
	v := &kgo.Record{Topic: "t", Value: []byte("v")}
	require.NoError(t, cl.ProduceSync(ctx, v).FirstErr())
	require.Equal(t, []string{"v"}, values(ctx, t, c, "t", 1))
}

// TestDialInProcess: a client without any network.
func TestDialInProcess(t *testing.T) {
	b, err := core.Open(context.Background(), core.Options{
		DataDir: "/d", FS: vfs.NewMem(), Net: vnet.NewPipe(), Listen: "nowhere:9092"})
	require.NoError(t, err)
	ctx := testContext(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers("any:1"), kgo.AllowAutoTopicCreation(),
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return b.Dial(ctx)
		}))
	require.NoError(t, err)
	r := &kgo.Record{Topic: "t", Value: []byte("v")}
	require.NoError(t, cl.ProduceSync(ctx, r).FirstErr())
	cl.Close()
	require.NoError(t, b.Close(ctx))
	require.NoError(t, b.Close(ctx), "a second time")
}

func TestHTTPEndpoints(t *testing.T) {
	b, err := core.Open(context.Background(), core.Options{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0"})
	require.NoError(t, err)
	ctx := testContext(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	r := &kgo.Record{Topic: "measured", Value: []byte("v")}
	require.NoError(t, cl.ProduceSync(ctx, r).FirstErr())
	cl.Close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get("http://" + b.HTTPAddr() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		return string(body)
	}
	require.Equal(t, "ok\n", get("/healthz"))
	require.Equal(t, "ok\n", get("/readyz"))
	// A request is counted once its answer is written, which is when the client may have it.
	metrics := ""
	require.Eventually(t, func() bool {
		metrics = get("/metrics")
		return strings.Contains(metrics, `millstream_request_duration_seconds_count{api="Produce"}`)
	}, time.Minute, time.Millisecond)
	for _, line := range []string{
		`millstream_log_end_offset{topic="measured",partition="0"} 1`,
		`millstream_request_duration_seconds_count{api="Produce"} 1`,
		`millstream_topics 1`, `millstream_network_bytes_total{direction="in"}`,
	} {
		require.Contains(t, metrics, line)
	}
	require.False(t, strings.Contains(metrics, "NaN"))
	foreign, err := http.NewRequest(http.MethodGet, "http://"+b.HTTPAddr()+"/metrics", nil)
	require.NoError(t, err)
	foreign.Host = "evil.example"
	resp, err := client.Do(foreign)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode)
	require.NoError(t, b.Close(ctx))
}

// TestDamagedPartitionKeepsNothingElse: a broker with one damaged log starts, serves the others,
// answers for that one with an error that says so, and can delete it.
func TestDamagedPartitionKeepsNothingElse(t *testing.T) {
	ctx, disk := testContext(t), vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk})
	produce := func(topic string) error {
		cl := c.Client(kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.DisableIdempotentWrite())
		defer cl.Close()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(topic)}).FirstErr()
	}
	_, err := kadm.NewClient(c.Client()).CreateTopics(ctx, 1, 1, nil, "good", "bad")
	require.NoError(t, err)
	require.NoError(t, produce("good"))
	require.NoError(t, produce("bad"))
	c.Stop()
	f, err := disk.OpenFile("/millstream/data/bad-0/00000000000000000000.log", vfs.WriteOnly, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(20))
	require.NoError(t, f.Close())
	c.Start()
	require.NoError(t, produce("good"))
	require.ErrorIs(t, produce("bad"), kerr.KafkaStorageError)
	require.Equal(t, []string{"good", "good"}, values(ctx, t, c, "good", 2))
	require.Contains(t, c.Log(), "recovery-point-offset-checkpoint", "what to do about it")
	admin := kadm.NewClient(c.Client())
	_, err = admin.DeleteTopics(ctx, "bad")
	require.NoError(t, err)
	_, err = admin.CreateTopics(ctx, 1, 1, nil, "bad")
	require.NoError(t, err)
	require.NoError(t, produce("bad"))
}

// TestLostMetadataIsRefused: a new metadata log beside old partitions would set them all aside.
func TestLostMetadataIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk})
	_, err := kadm.NewClient(c.Client()).CreateTopics(testContext(t), 1, 1, nil, "t")
	require.NoError(t, err)
	c.Stop()
	require.NoError(t, disk.Rename("/millstream/raft", "/saved"))
	_, err = core.Open(testContext(t), core.Options{DataDir: "/millstream", FS: disk,
		Net: vnet.NewPipe(), Listen: "broker:1"})
	require.ErrorIs(t, err, core.ErrMetadataLost)
	require.NoError(t, disk.RemoveAll("/millstream/raft"))
	require.NoError(t, disk.Rename("/saved", "/millstream/raft"))
	c.Start()
	require.Empty(t, values(testContext(t), t, c, "t", 0))
}
