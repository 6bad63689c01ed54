package server_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vnet"
)

// remote is a network in the process whose connections look as if they came from elsewhere, since
// clients in the process have no quotas.
type remote struct{ vnet.Network }

type remoteListener struct{ net.Listener }

type remoteConn struct{ net.Conn }

func (r remote) Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := r.Network.Listen(ctx, addr)
	return remoteListener{l}, err
}

func (l remoteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return remoteConn{c}, err
}

func (remoteConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40_000}
}

// quotaCluster has remote clients, and a disk that does not hold them up. Its rates are over the
// window before and the present one: the first second counts as one.
func quotaCluster(t *testing.T, change ...string) (*coretest.Cluster, *wire) {
	t.Helper()
	config := map[string]string{"quota.window.num": "2", "controller.quota.window.num": "2"}
	for i := 0; i < len(change); i += 2 {
		config[change[i]] = change[i+1]
	}
	c := coretest.Start(t, coretest.Options{Config: config, Change: func(o *core.Options) {
		o.Net = remote{o.Net}
	}})
	return c, dialLocal(t, c)
}

// dialLocal is a connection that has no quotas.
func dialLocal(t *testing.T, c *coretest.Cluster) *wire {
	t.Helper()
	conn, err := c.Broker().Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: t, c: conn}
}

// recordOf is a batch of one record of so many bytes, and some 70 of its own.
func recordOf(t *testing.T, size int) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: make([]byte, size)})
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// setQuota sets the quota of an entity; 0 removes it.
func setQuota(w *wire, entity, key string, value float64) {
	w.t.Helper()
	req := alterQuotas(false, quotaChange{entity, key, value, value == 0})
	req.Version = 1
	require.Zero(w.t, ask[*kmsg.AlterClientQuotasResponse](w, req).Entries[0].ErrorCode)
}

// asked is what a request costs a produce quota: its bytes without the length.
func asked(req kmsg.Request) int {
	return len(kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, 1)) - 4
}

// versionsAfter asks a small thing and returns when its answer was there.
func versionsAfter(w *wire) time.Time {
	w.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "t", "1"
	ask[*kmsg.ApiVersionsResponse](w, req)
	return time.Now()
}

// TestKIP219_ProduceIsAnsweredAtOnceThenMuted: a request of b bytes in a window that counts as 1 s
// is a wait of (b-50000)/50000*1 s, to the millisecond.
func TestKIP219_ProduceIsAnsweredAtOnceThenMuted(t *testing.T) {
	for _, v := range []struct {
		version, acks int16
	}{{9, 1}, {9, -1}, {3, 1}, {9, 0}} {
		c, admin := quotaCluster(t)
		newTopic(t, c, "t", 1, nil)
		setQuota(admin, "client-id=wire", "producer_byte_rate", 50_000)
		w := dial(t, c)
		req := produceRequest(v.version, "t", [16]byte{}, 0, recordOf(t, 100_000))
		req.Acks = v.acks
		want := time.Duration(float64(asked(req)-50_000)/50_000*1000+.5) * time.Millisecond
		began := time.Now()
		id := w.send(req)
		if v.acks != 0 {
			resp := w.receive(req, id).(*kmsg.ProduceResponse)
			require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
			require.Equal(t, int32(want.Milliseconds()), resp.ThrottleMillis)
		}
		took := versionsAfter(w).Sub(began)
		require.GreaterOrEqual(t, took, want, "version %d acks %d: nothing is read", v.version, v.acks)
		stats := scrape(t, c)
		require.Equal(t, 1.0, stats["millstream_throttles_total{quota=produce}"])
		require.Equal(t, want.Seconds(), stats["millstream_throttle_seconds_total{quota=produce}"])
		require.Equal(t, 1.0, stats["millstream_quota_clients{quota=produce}"])
		local := produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 100_000))
		require.Zero(t, ask[*kmsg.ProduceResponse](admin, local).ThrottleMillis, "in this process")
		if v.acks != 0 { // the answer does not wait for hours, nor does another connection
			setQuota(admin, "client-id=wire", "producer_byte_rate", 1)
			resp := ask[*kmsg.ProduceResponse](w, req)
			require.Greater(t, resp.ThrottleMillis, int32(time.Hour.Milliseconds()))
			versionsAfter(dial(t, c))
		}
	}
}

// TestKIP219_ThrottledFetchIsEmpty: what a quota can ever let through bounds the answer; one more
// is without records, which does not count, and they come afterwards.
func TestKIP219_ThrottledFetchIsEmpty(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	for range 10 {
		produceOne(admin, produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 10_000)))
	}
	setQuota(admin, "user=<null>", "consumer_byte_rate", 25_000)
	w := dial(t, c)
	fetch := fetchRequest(11, "t", [16]byte{}, 0, 0)
	fetch.MaxBytes, fetch.MinBytes, fetch.MaxWaitMillis = 1<<20, 1<<20, 10_000
	resp := ask[*kmsg.FetchResponse](w, fetch)
	require.Zero(t, resp.ThrottleMillis)
	require.Len(t, resp.Topics, 1)
	got := len(resp.Topics[0].Partitions[0].RecordBatches)
	require.Greater(t, got, 20_000)
	require.LessOrEqual(t, got, 25_000)
	began := time.Now()
	resp = ask[*kmsg.FetchResponse](w, fetch) // without the 10 s that it may wait for more
	require.Positive(t, resp.ThrottleMillis)
	require.Empty(t, resp.Topics)
	require.Zero(t, resp.ErrorCode)
	// Twice 20 kB over 25 kB/s and one second: less than a second of wait.
	wait := time.Duration(resp.ThrottleMillis) * time.Millisecond
	require.Less(t, wait, time.Second)
	require.GreaterOrEqual(t, versionsAfter(w).Sub(began), wait)
	// What was not sent does not count: 40 kB in 1.6 s are within 25 kB/s, 60 kB would not be.
	resp = ask[*kmsg.FetchResponse](w, fetch)
	require.Zero(t, resp.ThrottleMillis)
	require.Eventually(t, func() bool { // the windows of the first answer go by
		resp := ask[*kmsg.FetchResponse](w, fetch)
		return len(resp.Topics) == 1 && len(resp.Topics[0].Partitions[0].RecordBatches) == got
	}, time.Minute, 10*time.Millisecond)
}

// TestKIP219_ThrottledFetchKeepsItsSession: the session goes on, and tells what it had not told.
func TestKIP219_ThrottledFetchKeepsItsSession(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	begin := sessionFetch(12, [16]byte{}, 0, 0, at{0, 0})
	session := ask[*kmsg.FetchResponse](w, begin).SessionID
	require.NotZero(t, session)
	produceOne(admin, produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 10_000)))
	setQuota(admin, "client-id=<null>", "consumer_byte_rate", 5_000)
	for epoch := int32(1); ; epoch++ {
		resp := ask[*kmsg.FetchResponse](w, sessionFetch(12, [16]byte{}, session, epoch))
		require.Zero(t, resp.ErrorCode)
		require.Equal(t, session, resp.SessionID)
		if resp.ThrottleMillis == 0 {
			t.Fatal("10 kB in 2 s are over a quota of 5 kB")
		}
		require.Empty(t, resp.Topics)
		if epoch == 2 {
			setQuota(admin, "client-id=<null>", "consumer_byte_rate", 0)
			resp = ask[*kmsg.FetchResponse](w, sessionFetch(12, [16]byte{}, session, 3))
			require.Len(t, resp.Topics, 1)
			require.NotEmpty(t, resp.Topics[0].Partitions[0].RecordBatches)
			return
		}
	}
}

// TestKIP124_RequestTimeIsCharged: a quota of next to nothing has every answer ask for the wait of
// one window at most.
func TestKIP124_RequestTimeIsCharged(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	setQuota(admin, "client-id=wire", "request_percentage", 1e-9)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	for _, v := range []struct {
		name string
		req  kmsg.Request
	}{
		{"produce", produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 100))},
		{"fetch", fetchRequest(12, "t", [16]byte{}, 0, 0)},
		{"metadata", metadata},
	} {
		w := dial(t, c)
		began := time.Now()
		resp := ask[kmsg.Response](w, v.req)
		millis, _ := resp.(kmsg.ThrottleResponse).Throttle()
		require.Equal(t, int32(1000), millis, v.name)
		require.GreaterOrEqual(t, versionsAfter(w).Sub(began), time.Second, v.name)
	}
	// A produce without an answer has no quota of time.
	throttles := func() float64 { return scrape(t, c)["millstream_throttles_total{quota=request}"] }
	w, before := dial(t, c), throttles()
	req := produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 100))
	req.Acks = 0
	w.send(req)
	versionsAfter(w)
	require.Equal(t, before+1, throttles(), "of the question for versions alone")
}

// TestKIP599_ChangesOfTopicsAreBounded: with 2 partitions a second and 2 windows, 4 tokens.
func TestKIP599_ChangesOfTopicsAreBounded(t *testing.T) {
	c, admin := quotaCluster(t)
	setQuota(admin, "user=ANONYMOUS", "controller_mutation_rate", 0.01) // 0.02 tokens
	w := dial(t, c)
	create := func(version int16, name string, partitions int32) *kmsg.CreateTopicsResponse {
		req := newTopicRequest(name, partitions, 1)
		req.Version = version
		return ask[*kmsg.CreateTopicsResponse](w, req)
	}
	refused := newTopicRequest("a", 3, 5)
	refused.Version = 7
	for range 2 { // what is not made is not counted
		resp := ask[*kmsg.CreateTopicsResponse](w, refused)
		require.EqualValues(t, 38, resp.Topics[0].ErrorCode)
	}
	resp := create(7, "a", 3)
	require.Zero(t, resp.Topics[0].ErrorCode, "the last tokens may be overdrawn")
	require.Zero(t, resp.ThrottleMillis)
	require.EqualValues(t, 36, create(7, "a", 3).Topics[0].ErrorCode, "what exists is told as ever")
	resp = create(6, "b", 1)
	require.EqualValues(t, 89, resp.Topics[0].ErrorCode)
	// A debt of 2.98 tokens at 0.01 a second: 298 s, for which the connection is left alone.
	require.InDelta(t, 298_000, resp.ThrottleMillis, 50_000)
	setQuota(admin, "user=ANONYMOUS", "controller_mutation_rate", 2)
	w = dial(t, c)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 10000, []string{"a"}
	require.EqualValues(t, 89, ask[*kmsg.DeleteTopicsResponse](w, req).Topics[0].ErrorCode)
	w = dial(t, c)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 10000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 5}}
	require.EqualValues(t, 89, ask[*kmsg.CreatePartitionsResponse](w, grow).Topics[0].ErrorCode)
	// Older requests are done, and wait.
	w = dial(t, c)
	grow.Version = 2
	grown := ask[*kmsg.CreatePartitionsResponse](w, grow)
	require.Zero(t, grown.Topics[0].ErrorCode)
	require.Positive(t, grown.ThrottleMillis)
}

// TestKIP612_ConnectionsOfAnAddressAreBounded: 2 may come at once; the next is closed unanswered,
// at least half of a second later. A machine that stalls may let more than 2 come.
func TestKIP612_ConnectionsOfAnAddressAreBounded(t *testing.T) {
	c, admin := quotaCluster(t)
	setQuota(admin, "ip=127.0.0.1", "connection_creation_rate", 2)
	served := func() bool {
		conn, err := c.Dialer()(t.Context(), "tcp", c.Addr())
		require.NoError(t, err)
		defer conn.Close()
		return answered(t, conn)
	}
	require.True(t, served())
	require.True(t, served())
	var took time.Duration
	require.Eventually(t, func() bool {
		began := time.Now()
		ok := served()
		took = time.Since(began)
		return !ok
	}, time.Minute, time.Microsecond)
	require.GreaterOrEqual(t, took, 400*time.Millisecond, "(3-2)/2*1 s later, less a stall")
	require.Eventually(t, served, time.Minute, 10*time.Millisecond)
	require.Positive(t, scrape(t, c)["millstream_throttles_total{quota=connection_creation}"])
}

// TestMutedConnectionsEndWithTheBroker: a wait of minutes does not hold up the end of the broker,
// nor the notice that the client has left.
func TestMutedConnectionsEndWithTheBroker(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	setQuota(admin, "client-id=wire", "producer_byte_rate", 1)
	muted := func() float64 { return scrape(t, c)["millstream_connections_muted{}"] }
	w := dial(t, c)
	produceOne(w, produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 10_000)))
	require.NoError(t, w.c.Close())
	w = dial(t, c)
	produceOne(w, produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 10_000)))
	req := kmsg.NewPtrApiVersionsRequest()
	w.send(req)
	require.Eventually(t, func() bool { return muted() == 1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, c.Broker().Close(ctx))
}

// TestMutedReaderStopsBehindItsBuffer: of a hundred requests that were sent at once, those are
// handled that the read buffer of 64 KiB had, and one more that was begun.
func TestMutedReaderStopsBehindItsBuffer(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	setQuota(admin, "client-id=wire", "producer_byte_rate", 1)
	w := dial(t, c)
	versionsAfter(w)
	req := produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 4000))
	req.Acks = 1
	var all []byte
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire"))
	for i := range int32(100) {
		all = append(all, format.AppendRequest(nil, req, i)...)
	}
	written := make(chan error, 1)
	go func() {
		_, err := w.c.Write(all) // more than is taken
		written <- err
	}()
	require.Eventually(t, func() bool {
		return scrape(t, c)["millstream_connections_muted{}"] == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, w.c.SetReadDeadline(time.Now().Add(400*time.Millisecond)))
	answers, err := io.ReadAll(w.c)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	size := len(answers)
	require.Positive(t, size)
	one := int(binary.BigEndian.Uint32(answers)) + 4
	require.LessOrEqual(t, size/one, 64<<10/4000+2)
	require.Equal(t, 1.0, scrape(t, c)["millstream_connections_muted{}"])
	got := scrape(t, c)
	require.Zero(t, got["millstream_request_memory_bytes{kind=read buffers}"], "it holds none")
	require.NoError(t, w.c.Close())
	require.Error(t, <-written)
}

// TestQuotaWindowsAreConfigs: the first second counts as the windows before it.
func TestQuotaWindowsAreConfigs(t *testing.T) {
	for _, v := range []struct {
		num, seconds string
		free         int // bytes at once with 1000 a second
	}{{"2", "30", 30_000}, {"6", "60", 300_000}} {
		c, admin := quotaCluster(t, "quota.window.num", v.num, "quota.window.size.seconds", v.seconds,
			"controller.quota.window.num", v.num, "controller.quota.window.size.seconds", v.seconds,
			"millstream.quota.clients.max", "1")
		newTopic(t, c, "t", 1, nil)
		setQuota(admin, "client-id=<null>", "producer_byte_rate", 1000)
		setQuota(admin, "client-id=<null>", "controller_mutation_rate", 0.1)
		w := dial(t, c)
		req := produceRequest(9, "t", [16]byte{}, 0, recordOf(t, v.free-300))
		require.Zero(t, ask[*kmsg.ProduceResponse](w, req).ThrottleMillis)
		req = produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 400))
		require.Positive(t, ask[*kmsg.ProduceResponse](w, req).ThrottleMillis)
		// 0.1*30*2 = 6 or 0.1*60*6 = 36 tokens, as many partitions, then none.
		w = dial(t, c)
		tokens := int32(6)
		if v.num == "6" {
			tokens = 36
		}
		topics := newTopicRequest("b", tokens+1, 1)
		topics.Version = 7
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](w, topics).Topics[0].ErrorCode)
		topics.Topics[0].Topic = "c"
		refused := ask[*kmsg.CreateTopicsResponse](w, topics)
		require.EqualValues(t, 89, refused.Topics[0].ErrorCode)
		require.InDelta(t, 10_000, refused.ThrottleMillis, 9_000, "a debt of one")
		clients := scrape(t, c)["millstream_quota_clients{quota=produce}"]
		require.LessOrEqual(t, clients, 2.0, "one and the shared one")
	}
}

// TestClientsAreMutedWhileTheirFetchWaits mutes a connection from outside of its reader.
func TestClientsAreMutedWhileTheirFetchWaits(t *testing.T) {
	c, admin := quotaCluster(t)
	newTopic(t, c, "t", 1, nil)
	setQuota(admin, "client-id=wire", "consumer_byte_rate", 5_000)
	w := dial(t, c)
	fetch := fetchRequest(12, "t", [16]byte{}, 0, 0)
	fetch.MinBytes, fetch.MaxWaitMillis, fetch.MaxBytes = 1, 30_000, 1<<20
	id := w.send(fetch)
	require.Eventually(t, func() bool {
		return scrape(t, c)["millstream_requests_waiting{api=Fetch}"] == 1
	},
		time.Minute, time.Millisecond)
	began := time.Now()
	produceOne(admin, produceRequest(9, "t", [16]byte{}, 0, recordOf(t, 10_000)))
	resp := w.receive(fetch, id).(*kmsg.FetchResponse)
	require.Positive(t, resp.ThrottleMillis)
	require.Empty(t, resp.Topics)
	wait := time.Duration(resp.ThrottleMillis) * time.Millisecond
	require.GreaterOrEqual(t, versionsAfter(w).Sub(began), wait)
}
