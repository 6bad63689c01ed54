package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/vnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineServer is a Server with the connection layer only, and handlers of the test's.
type lineServer struct {
	*Server
	net  *vnet.Pipe
	addr string
	log  *lockedBuffer
}

type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

func startLine(t testing.TB, limits Limits, rows ...handler) *lineServer {
	t.Helper()
	set(&limits.StepTimeout, time.Hour) // nobody is closed for slowness unless the test is about that
	limits.withDefaults()
	log := new(lockedBuffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	s := &Server{
		opts: Options{Limits: limits, Logger: logger}, log: logger,
		table: newHandlerTable(append(rows,
			handler{key: protocol.KeyApiVersions, max: 4, handle: (*Server).apiVersions})),
		answers: newAnswerMemory(limits.AnswerBytes),
	}
	s.makeBudgets(2 * limits.MemoryBytes)
	s.sessions = newFetchSessionCache(0, fetchSessionMemory)
	s.makeCounts()
	network := vnet.NewPipe()
	l, err := network.Listen(context.Background(), "broker:9092")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.ErrorIs(t, <-done, ErrClosed)
	})
	return &lineServer{Server: s, net: network, addr: "broker:9092", log: log}
}

func (s *lineServer) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := s.net.Dial(context.Background(), s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// encodeRequest is a whole frame, as a client writes it.
func encodeRequest(correlation int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).
		AppendRequest(nil, req, correlation)
}

func apiVersionsRequest(version int16) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(version)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
	return req
}

// readFrame reads one answer and returns its correlation id and what follows that.
func readFrame(t testing.TB, c net.Conn) (correlation int32, rest []byte) {
	t.Helper()
	correlation, rest, err := tryReadFrame(c)
	require.NoError(t, err)
	return correlation, rest
}

func tryReadFrame(c net.Conn) (correlation int32, rest []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return 0, nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:], nil
}

func requireClosed(t testing.TB, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, _, err := tryReadFrame(c)
	require.Error(t, err)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

// hostileFrame is one line of the table.
type hostileFrame struct {
	name  string
	after bool // after a valid request, so that the larger limits are in force
	bytes string
}

func hostileFrames() []hostileFrame {
	header := func(key, version int16, rest string) string {
		body := hex.EncodeToString(binary.BigEndian.AppendUint16(
			binary.BigEndian.AppendUint16(nil, uint16(key)), uint16(version))) +
			"00000001" + "0001" + "61" + strings.ReplaceAll(rest, " ", "")
		return hex.EncodeToString(binary.BigEndian.AppendUint32(nil,
			uint32(len(body)/2))) + body
	}
	return []hostileFrame{
		{"HTTP", false, hex.EncodeToString([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))},
		{"TLS client hello", false, "16030100a5010000a10303" + strings.Repeat("ab", 100)},
		{"SSH", false, hex.EncodeToString([]byte("SSH-2.0-OpenSSH_9.6\r\n"))},
		{"size -1", true, "ffffffff"},
		{"size 0", true, "00000000"},
		{"size 9", true, "00000009" + strings.Repeat("00", 9)},
		{"size 2 GiB - 1", true, "7fffffff" + strings.Repeat("00", 100)},
		{"size 100 MiB + 1", true, "06400001" + strings.Repeat("00", 100)},
		{"first request over 64 KiB", false, "00010001" + "0003" + strings.Repeat("00", 5000)},
		{"control request over 8 MiB", true,
			"00800001" + "0003000100000001ffff" + strings.Repeat("00", 70000)},
		{"unknown key", true, header(999, 0, "")},
		{"negative key", true, header(-1, 0, "")},
		{"key of brokers only", true, header(7, 0, "")},
		{"version too new", true, header(3, 99, "")},
		{"negative version", true, header(3, -1, "")},
		{"negative version of ApiVersions", true, header(18, -1, "")},
		{"Produce v2", true, header(0, 2, "0001 00000001 00000000")},
		{"header without tags", true, header(3, 9, "")},
		{"Metadata with 2^31-1 topics", true, header(3, 1, "7fffffff")},
		{"Metadata with 2^32-2 topics, compact", true, header(3, 9, "00 ffffffff0f 00")},
		{"varint of six bytes", true, header(3, 9, "00 ffffffffff01")},
		{"varint cut short", true, header(3, 9, "00 ff")},
		{"string longer than the frame", true, header(3, 1, "00000001 7fff 61")},
		{"tag of 4 GiB", true, header(3, 9, "00 01 00 00 00 01 05 ffffffff0f")},
		{"2^32-1 tags", true, header(3, 9, "00 01 00 00 00 ffffffff0f")},
		{"Produce with 2^31-1 topics", true, header(0, 3, "ffff ffff 000003e8 7fffffff")},
		{"Produce with records of 2 GiB", true, header(0, 3,
			"ffff ffff 000003e8 00000001 0001 61 00000001 00000000 7fffffff")},
		{"Fetch with 2^31-1 partitions", true, header(1, 4,
			"ffffffff 00000000 00000001 00000001 00 00000001 0001 61 7fffffff")},
	}
}

// TestHostileFramesCloseTheirConnection is a table of what a hostile peer may send: each line
// closes the connection, takes no memory to speak of, and leaves others alone. The bytes are
// written out by hand.
func TestHostileFramesCloseTheirConnection(t *testing.T) {
	s, began := startLine(t, Limits{}, handlers...), time.Now()
	valid := encodeRequest(1, apiVersionsRequest(0))
	for _, c := range hostileFrames() {
		t.Run(c.name, func(t *testing.T) {
			conn := s.dial(t)
			if c.after {
				_, err := conn.Write(valid)
				require.NoError(t, err)
				readFrame(t, conn)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			raw, err := hex.DecodeString(c.bytes)
			require.NoError(t, err)
			_, _ = conn.Write(raw) // the peer may close before all is written
			requireClosed(t, conn)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20),
				"allocated by a length field")
		})
	}
	conn := s.dial(t)
	_, err := conn.Write(valid)
	require.NoError(t, err)
	id, _ := readFrame(t, conn)
	require.Equal(t, int32(1), id)
	require.LessOrEqual(t, strings.Count(s.log.String(), "\n")/complaintsPerSecond,
		int(time.Since(began)/time.Second)+2, "a flood of bad frames is a flood of log lines")
}

// TestApiVersionsTooNew: KIP-511. Error 35, version 0 body, only key 18, connection stays open.
func TestApiVersionsTooNew(t *testing.T) {
	s := startLine(t, Limits{}, handlers...)
	conn := s.dial(t)
	frame := encodeRequest(5, apiVersionsRequest(4))
	binary.BigEndian.PutUint16(frame[6:], 1234)
	_, err := conn.Write(frame)
	require.NoError(t, err)
	id, rest := readFrame(t, conn)
	require.Equal(t, int32(5), id)
	require.Equal(t, "0023"+"00000001"+"0012"+"0000"+"0004", hex.EncodeToString(rest))
	_, err = conn.Write(encodeRequest(6, apiVersionsRequest(3)))
	require.NoError(t, err)
	id, _ = readFrame(t, conn)
	require.Equal(t, int32(6), id)
}

func TestApiVersionsChecksSoftwareName(t *testing.T) {
	s := startLine(t, Limits{})
	for name, code := range map[string]int16{
		"librdkafka": 0, "apache-kafka.java": 0, "": 42, "-x": 42, "x-": 42, "a b": 42,
	} {
		conn := s.dial(t)
		req := apiVersionsRequest(3)
		req.ClientSoftwareName = name
		_, err := conn.Write(encodeRequest(1, req))
		require.NoError(t, err)
		_, rest := readFrame(t, conn)
		var resp kmsg.ApiVersionsResponse
		resp.SetVersion(3)
		require.NoError(t, resp.ReadFrom(rest))
		require.Equal(t, code, resp.ErrorCode, "name %q", name)
	}
}

// TestPipelinedAnswersKeepOrder sends requests in one write; a handler that waits holds back the
// answers of later ones, never swaps them.
func TestPipelinedAnswersKeepOrder(t *testing.T) {
	gate := make(chan struct{})
	slow := handler{key: protocol.KeyMetadata, max: 13,
		handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
			<-gate
			return r.message.ResponseKind(), nil
		}}
	s := startLine(t, Limits{}, slow)
	conn := s.dial(t)
	var all []byte
	for i := range int32(50) {
		var req kmsg.Request = apiVersionsRequest(int16(i % 5))
		if i%7 == 3 {
			req = kmsg.NewPtrMetadataRequest()
			req.SetVersion(9)
		}
		all = append(all, encodeRequest(i, req)...)
	}
	_, err := conn.Write(all)
	require.NoError(t, err)
	close(gate)
	for i := range int32(50) {
		id, _ := readFrame(t, conn)
		require.Equal(t, i, id)
	}
}

// TestFramesInAnyPieces cuts a stream of requests at every possible place.
func TestFramesInAnyPieces(t *testing.T) {
	s := startLine(t, Limits{}, handler{key: protocol.KeyMetadata, max: 13,
		handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
			return r.message.ResponseKind(), nil
		}})
	big := kmsg.NewPtrMetadataRequest()
	big.SetVersion(1)
	for range 3000 { // 100 KiB: larger than the read buffer
		topic := kmsg.NewMetadataRequestTopic()
		name := strings.Repeat("x", 33)
		topic.Topic = &name
		big.Topics = append(big.Topics, topic)
	}
	stream := encodeRequest(0, apiVersionsRequest(0))
	stream = append(stream, encodeRequest(1, apiVersionsRequest(3))...)
	cuts := len(stream)
	stream = append(stream, encodeRequest(2, big)...)
	stream = append(stream, encodeRequest(3, apiVersionsRequest(0))...)
	for cut := range cuts + 20 {
		conn := s.dial(t)
		_, err := conn.Write(stream[:cut])
		require.NoError(t, err)
		_, err = conn.Write(stream[cut:])
		require.NoError(t, err)
		for i := range int32(4) {
			id, _ := readFrame(t, conn)
			require.Equal(t, i, id)
		}
		require.NoError(t, conn.Close())
	}
}

func TestPanicClosesOnlyItsConnection(t *testing.T) {
	s := startLine(t, Limits{}, handler{key: protocol.KeyMetadata, max: 13,
		handle: func(*Server, context.Context, *request) (kmsg.Response, error) {
			var nothing []int
			_ = nothing[3]
			return nil, nil
		}})
	bad, good := s.dial(t), s.dial(t)
	req := kmsg.NewPtrMetadataRequest()
	_, err := bad.Write(encodeRequest(1, req))
	require.NoError(t, err)
	requireClosed(t, bad)
	require.Contains(t, s.log.String(), "request handler panicked")
	_, err = good.Write(encodeRequest(1, apiVersionsRequest(0)))
	require.NoError(t, err)
	readFrame(t, good)
}

func TestConnectionsOverTheLimitAreRefused(t *testing.T) {
	s := startLine(t, Limits{Connections: 2})
	first, second := s.dial(t), s.dial(t)
	for _, c := range []net.Conn{first, second} {
		_, err := c.Write(encodeRequest(1, apiVersionsRequest(0)))
		require.NoError(t, err)
		readFrame(t, c)
	}
	requireClosed(t, s.dial(t))
	_, err := first.Write(encodeRequest(2, apiVersionsRequest(0)))
	require.NoError(t, err)
	readFrame(t, first)
}

// TestSlowClientsAreCutOff: a request that trickles, an answer nobody reads and an idle connection
// each end after their time.
func TestSlowClientsAreCutOff(t *testing.T) {
	limits := Limits{IdleTimeout: 10 * time.Minute, StepTimeout: 30 * time.Second}
	within := func(t *testing.T, name string, least, most time.Duration, client func(net.Conn)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startLine(t, limits, handler{key: protocol.KeyMetadata, max: 13, handle: large})
				conn := s.dial(t)
				start := time.Now()
				synctest.Wait()
				client(conn)
				s.conns.Wait()
				require.GreaterOrEqual(t, time.Since(start), least)
				require.LessOrEqual(t, time.Since(start), most)
			})
		})
	}
	write := func(c net.Conn, b []byte) { _, _ = c.Write(b) }
	whole := encodeRequest(1, apiVersionsRequest(0))
	within(t, "idle", 10*time.Minute-time.Second, 10*time.Minute+time.Second,
		func(net.Conn) {})
	within(t, "length without request", 26*time.Second, 31*time.Second,
		func(c net.Conn) { write(c, whole[:4]) })
	within(t, "half a length", 26*time.Second, 31*time.Second,
		func(c net.Conn) { write(c, whole[:2]) })
	within(t, "half a request", 26*time.Second, 31*time.Second,
		func(c net.Conn) { write(c, whole[:12]) })
	within(t, "answers not read", 26*time.Second, 31*time.Second, func(c net.Conn) {
		var all []byte
		for i := range int32(100) {
			all = append(all, encodeRequest(i, kmsg.NewPtrMetadataRequest())...)
		}
		write(c, all)
	})
}

// large answers with 1 MiB.
func large(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
	resp := r.message.ResponseKind().(*kmsg.MetadataResponse)
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host = strings.Repeat("h", 30000)
	for range 35 {
		resp.Brokers = append(resp.Brokers, broker)
	}
	return resp, nil
}

// TestRequestsWaitForTheMemoryBudget: requests that together want more than the budget wait for
// each other instead of being held at once.
func TestRequestsWaitForTheMemoryBudget(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	s := startLine(t, Limits{MemoryBytes: 5 << 20}, handler{key: protocol.KeyMetadata, max: 13,
		handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			running--
			mu.Unlock()
			return r.message.ResponseKind(), nil
		}})
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(1)
	for range 6000 { // 200 KiB, 4 MiB of budget
		topic := kmsg.NewMetadataRequestTopic()
		name := strings.Repeat("x", 33)
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	frame := encodeRequest(1, req)
	var wg sync.WaitGroup
	for range 8 {
		conn := s.dial(t)
		wg.Go(func() {
			_, _ = conn.Write(encodeRequest(0, apiVersionsRequest(0)))
			_, _, err := tryReadFrame(conn)
			for i := 0; i < 5 && err == nil; i++ {
				_, _ = conn.Write(frame)
				_, _, err = tryReadFrame(conn)
			}
			if err != nil {
				t.Errorf("no answer: %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, s.memory.total, heldNothing(s.memory))
}

// heldNothing returns what can be acquired at once: all of it if nothing is held.
func heldNothing(b *budget) int64 {
	if !b.sem.TryAcquire(b.total) {
		return -1
	}
	b.sem.Release(b.total)
	return b.total
}

// TestCloseAnswersWhatWasRead: Close lets a request that was read be answered, and ends idle
// connections at once.
func TestCloseAnswersWhatWasRead(t *testing.T) {
	entered, gate := make(chan struct{}), make(chan struct{})
	s := startLine(t, Limits{}, handler{key: protocol.KeyMetadata, max: 13,
		handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
			close(entered)
			<-gate
			return r.message.ResponseKind(), nil
		}})
	idle, busy := s.dial(t), s.dial(t)
	_, err := busy.Write(encodeRequest(1, kmsg.NewPtrMetadataRequest()))
	require.NoError(t, err)
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	requireClosed(t, idle)
	close(gate)
	id, _ := readFrame(t, busy)
	require.Equal(t, int32(1), id)
	requireClosed(t, busy)
	require.NoError(t, <-closed)
}

func FuzzFrames(f *testing.F) {
	f.Add(encodeRequest(1, apiVersionsRequest(0)))
	f.Add(append(encodeRequest(1, apiVersionsRequest(3)), encodeRequest(2,
		apiVersionsRequest(0))...))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		client, server := net.Pipe()
		go func() {
			_, _ = client.Write(stream)
			_ = client.Close()
		}()
		limits := Limits{}
		limits.withDefaults()
		r := frameReader{conn: server, readers: newBudget(1 << 20), memory: newBudget(1 << 20),
			huge: newBudget(1 << 20), limitOf: limits.frame, idle: time.Minute, step: time.Minute}
		defer r.close()
		total := 0
		for {
			frame, err := r.next(t.Context(), 1<<20, readBufferBytes)
			if err != nil {
				break
			}
			total += len(frame) + 4
		}
		_ = server.Close()
		require.LessOrEqual(t, total, len(stream))
	})
}
