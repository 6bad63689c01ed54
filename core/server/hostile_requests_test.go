package server_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// bystander is a producer and a consumer that go about their work, without a retry, while others
// misbehave.
type bystander struct {
	t    *testing.T
	stop chan struct{}
	done chan error
	n    atomic.Int64
	// slowest is the longest time that a record took from its producer to its consumer.
	slowest atomic.Int64
}

// startBystander starts one, on a topic of its own. It has worked once when this returns.
func startBystander(t *testing.T, c *coretest.Cluster) *bystander {
	t.Helper()
	newTopic(t, c, "bystander", 1, nil)
	b := &bystander{t: t, stop: make(chan struct{}), done: make(chan error, 1)}
	cl := c.Client(kgo.DefaultProduceTopic("bystander"), kgo.ConsumeTopics("bystander"),
		kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.FetchMaxWait(time.Second))
	go func() { b.done <- b.work(cl) }()
	b.requireWorks(time.Minute)
	return b
}

func (b *bystander) work(cl *kgo.Client) error {
	for n := int64(0); ; n++ {
		select {
		case <-b.stop:
			return nil
		default:
		}
		began := time.Now()
		r := kgo.StringRecord(strconv.FormatInt(n, 10))
		if err := cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			return fmt.Errorf("produce %d: %w", n, err)
		}
		if r.Offset != n {
			return fmt.Errorf("record %d is at offset %d", n, r.Offset)
		}
		for got := false; !got; {
			fetches := cl.PollFetches(b.t.Context())
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("fetch %d: %w", n, err)
			}
			for _, r := range fetches.Records() {
				if got = true; r.Offset != n || string(r.Value) != strconv.FormatInt(n, 10) {
					return fmt.Errorf("offset %d has %q, not %d", r.Offset, r.Value, n)
				}
			}
		}
		b.n.Add(1)
		b.slowest.Store(max(b.slowest.Load(), int64(time.Since(began))))
	}
}

// requireWorks requires that some more records have gone their way.
func (b *bystander) requireWorks(within time.Duration) {
	b.t.Helper()
	before := b.n.Load()
	require.Eventually(b.t, func() bool {
		select {
		case err := <-b.done:
			b.done <- err
			return true
		default:
			return b.n.Load() > before+2
		}
	}, within, time.Millisecond, "the bystander is held up")
	select {
	case err := <-b.done:
		b.t.Fatalf("the bystander failed: %v", err)
	default:
	}
}

// end stops it, and requires that it never failed and was never held up.
func (b *bystander) end() {
	b.t.Helper()
	b.requireWorks(time.Minute)
	close(b.stop)
	require.NoError(b.t, <-b.done)
	slowest := time.Duration(b.slowest.Load())
	b.t.Logf("the bystander: %d records, the slowest took %v", b.n.Load(), slowest)
	require.Less(b.t, slowest, time.Minute)
}

// malformed makes frames of a good request that are wrong in one place each: what is cut off, what
// is left over, and lengths, counts and varints that lie, all over it.
func malformed(body []byte) map[string][]byte {
	out := map[string][]byte{
		"left over": frame(append(slices.Clone(body), 0, 0, 7)),
		"length 0":  {0, 0, 0, 0}, "length -1": {0xff, 0xff, 0xff, 0xff},
		"2 GiB to come":   append([]byte{0x7f, 0xff, 0xff, 0xff}, body...),
		"100 MiB and one": append([]byte{0x06, 0x40, 0x00, 0x01}, body...),
	}
	// Key, version and correlation id stay; all else is fair game.
	for i := range 6 {
		at := 8 + i*(len(body)-8)/6
		if at >= len(body) {
			continue
		}
		out[fmt.Sprint("cut at ", at)] = frame(body[:at])
		for name, lie := range map[string][]byte{
			"2^31-1": {0x7f, 0xff, 0xff, 0xff}, "-1": {0xff, 0xff, 0xff, 0xff},
			"-2": {0xff, 0xff, 0xff, 0xfe}, "varint 2^32-1": {0xff, 0xff, 0xff, 0xff, 0x0f},
			"endless varint": {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
			"32767":          {0x7f, 0xff},
		} {
			b := slices.Clone(body)
			copy(b[at:], lie)
			out[fmt.Sprintf("%s at %d", name, at)] = frame(b)
		}
	}
	return out
}

// outcome sends a frame, says that nothing follows, and returns how many bytes came back before the
// broker closed the connection, which it must.
func outcome(t *testing.T, conn net.Conn, b []byte, what string) (answered int64) {
	t.Helper()
	_, _ = conn.Write(b) // the broker may close before all is written
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	answered, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("%s: the connection is open", what)
	}
	_ = conn.Close()
	return answered
}

// frame puts the length in front of a request.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// requireGone waits until no more connections are open than at the start, and what worked for them
// has ended. The requests may have made topics, so that some files and goroutines stay.
func requireGone(t *testing.T, c *coretest.Cluster, start scraped, goroutines int) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, n := scrape(t, c), 0
		n, _ = resources()
		for sample := range start {
			if strings.HasPrefix(sample, "millstream_connections{") && now[sample] > start[sample] {
				return false
			}
		}
		return n <= goroutines+300
	}, time.Minute, 50*time.Millisecond, "connections, or goroutines, are left")
}

// F20: frames of every key and version that are wrong in one place each, some 45,000, before and
// after the login. Before it, nothing but versions and the login is answered. No handler panics,
// memory stays small, nothing is left behind, and a producer and a consumer go on meanwhile.
func TestF20_MalformedRequestsOfEveryKey(t *testing.T) {
	config := secured("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")
	delete(config, "authorizer.class.name")
	delete(config, "super.users")
	c := coretest.Start(t, coretest.Options{OS: true, Config: config})
	by := startBystander(t, c)
	requests := goldenRequests(t)
	if testing.Short() {
		requests = slices.DeleteFunc(requests, func(g goldenRequest) bool { return g.bytes[3]%3 != 0 })
	}
	for _, g := range requests { // makes coordinators and topics, which stay
		outcome(t, tcpDial(t, c), frame(g.bytes), g.name)
	}
	goroutines, _ := resources()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	panics, broken := "millstream_request_panics_total{}", "millstream_connections_broken_total{}"
	start := scrape(t, c)
	sent, answered, peak := 0, 0, uint64(0)
	keys := map[uint16]bool{}
	for i, g := range requests {
		key := binary.BigEndian.Uint16(g.bytes)
		keys[key] = true
		for name, wrong := range malformed(g.bytes) {
			what := g.name + ", " + name
			n := outcome(t, dialListener(t, c, "SASL_PLAINTEXT").c, wrong, what)
			if key != 17 && key != 18 && key != 36 {
				require.Zero(t, n, "%s: answered before the login", what)
			}
			if outcome(t, tcpDial(t, c), wrong, what) > 0 {
				answered++
			}
			sent += 2
		}
		if i%10 == 0 {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse)
			by.requireWorks(time.Minute)
		}
	}
	now := scrape(t, c)
	t.Logf("%d frames of %d keys: %d answered, %v closed for a fault; peak of the heap %d MiB",
		sent, len(keys), answered, now[broken]-start[broken], peak>>20)
	require.Zero(t, now[panics])
	require.Greater(t, len(keys), 15)
	require.Greater(t, now[broken]-start[broken], float64(sent)/2, "the faults do not bite")
	require.Positive(t, answered, "nothing gets as far as a handler")
	require.Less(t, peak, before.HeapInuse+128<<20)
	requireGone(t, c, start, goroutines)
	by.end()
}

// F11, F22: each request trickles in byte by byte, on real sockets, and then each with its last
// byte missing, all of them at the same time, so that the
// broker waits for as many halves as there are requests. Others do not notice.
func TestF22_RequestsByteByByte(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	by := startBystander(t, c)
	requests := goldenRequests(t)
	for _, g := range requests { // makes coordinators and topics, which stay
		outcome(t, tcpDial(t, c), frame(g.bytes), g.name)
	}
	goroutines, _ := resources()
	held := []net.Conn{}
	start, wrote := scrape(t, c), 0
	for _, g := range requests {
		whole := frame(g.bytes)
		conn := tcpDial(t, c)
		for i := range whole { // without Nagle's algorithm, as Go has it: a packet each
			if _, err := conn.Write(whole[i : i+1]); err != nil {
				break // refused by its first bytes
			}
		}
		outcome(t, conn, nil, g.name)
		conn = tcpDial(t, c)
		_, err := conn.Write(whole[:len(whole)-1])
		require.NoError(t, err)
		held = append(held, conn)
		wrote += len(whole)
	}
	by.requireWorks(time.Minute)
	now := scrape(t, c)
	bytes := "millstream_network_bytes_total{direction=in}"
	open := "millstream_connections{listener=PLAINTEXT}"
	require.GreaterOrEqual(t, now[bytes]-start[bytes], float64(wrote), "not all was read")
	// Of the connections at the start, some were about to be closed.
	require.Greater(t, now[open]-start[open], float64(len(held)*9/10), "halves are not waited for")
	for _, conn := range held {
		require.NoError(t, conn.Close())
	}
	requireGone(t, c, start, goroutines)
	by.end()
}

// F22: clients that ask for much and read nothing, more of them than their answers have memory. The
// broker stops working for them, and for nobody else.
func TestF22_ReadersThatDoNotRead(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for range 8 {
		produceOne(w, produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 900<<10)))
	}
	by := startBystander(t, c)
	goroutines, descriptors := resources()
	before := heapInUse()
	var stuck []net.Conn
	sent := "millstream_network_bytes_total{direction=out}"
	start := scrape(t, c)[sent]
	for range 200 {
		conn := tcpDial(t, c)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		fetch := fetchRequest(12, "t", [16]byte{}, 0, 0)
		fetch.MaxBytes = 8 << 20
		fetch.Topics[0].Partitions[0].PartitionMaxBytes = 8 << 20
		_, err := conn.Write(frameOf(fetch))
		require.NoError(t, err)
		list := metadataRequest(9, false)
		list.Topics = nil
		for range 20 {
			_, err = conn.Write(frameOf(list))
			require.NoError(t, err)
		}
		stuck = append(stuck, conn)
	}
	by.requireWorks(time.Minute)
	// 8 MB each were asked for: what was not read must not be in memory.
	require.Less(t, heapInUse()-before, int64(64<<20))
	require.Less(t, scrape(t, c)[sent]-start, float64(200*(8<<20)*3/4), "the answers were written")
	for _, conn := range stuck {
		reset(t, conn)
	}
	requireGivenBack(t, goroutines, descriptors)
	by.end()
}
