package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var attacks = []attack{
	{name: "garbage", what: "connections with random bytes", workers: 2, make: garbage},
	{name: "mutated", what: "recorded requests with bytes changed", workers: 3, make: mutated},
	{name: "lengths", what: "lengths that lie", workers: 2, make: lengths},
	{name: "trickle", what: "requests that trickle in, byte by byte", workers: 6, make: trickle},
	{name: "holders", what: "requests of megabytes that get their memory and then trickle", workers: 1, make: holders},
	{name: "silence", what: "connections that say nothing, or half a request", workers: 4, make: silence},
	{name: "reset", what: "requests that break off", workers: 2, make: resets},
	{name: "bombs", what: "batches that decompress to much, or lie", workers: 1, make: bombs},
	{name: "logins", what: "wrong passwords and half logins", workers: 3, make: logins},
	{name: "unread", what: "answers of megabytes that are not read", workers: 20, make: unread},
	{name: "crowd", what: "connections that come and go", workers: 2, make: crowd},
	{name: "groups", what: "members, transactions and topics without end", workers: 3, make: groups},
	{name: "http", what: "HTTP requests, good, bad and slow", workers: 3, make: overHTTP},
}

// dial connects to where strangers are taken, or users. Nil if it is refused; it has waited then.
func dial(ctx context.Context, addr string) net.Conn {
	var d net.Dialer
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := d.DialContext(short, "tcp", addr)
	if err != nil {
		rest(ctx, 50*time.Millisecond)
		return nil
	}
	return c
}

func rest(ctx context.Context, span time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
}

// hangUp ends a connection in one of the ways there are.
func hangUp(c net.Conn, r *rand.Rand) {
	if t, ok := c.(*net.TCPConn); ok && r.IntN(2) == 0 {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (w *world) somewhere(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return w.node.users()
	}
	return w.node.strangers()
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// listen reads what comes for a moment.
func listen(c net.Conn, span time.Duration) {
	_ = c.SetReadDeadline(time.Now().Add(span))
	_, _ = io.Copy(io.Discard, c)
}

func request(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("attack")).AppendRequest(nil, req, 7)
}

func versions() []byte {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "attack", "1"
	return request(req)
}

func garbage(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.somewhere(r))
	if c == nil {
		return
	}
	defer hangUp(c, r)
	if r.IntN(2) == 0 {
		_, _ = c.Write(versions())
	}
	b := randomBytes(r, 1+r.IntN(4000))
	if r.IntN(2) == 0 { // a length that is right
		b = framed(b)
	}
	_, _ = c.Write(b)
	count.Add(1)
	listen(c, 20*time.Millisecond)
}

// mutant is a recorded request with some bytes changed, mostly to those that hurt.
func (w *world) mutant(r *rand.Rand) []byte {
	b := slices.Clone(w.requests[r.IntN(len(w.requests))])
	hurt := [][]byte{{0xff, 0xff, 0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0}, {0x80},
		{0xff, 0xff}, {0x7f, 0xff}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, {0, 0, 0, 0}, {1}}
	for range r.IntN(4) {
		at := 8 + r.IntN(max(len(b)-8, 1))
		if at >= len(b) {
			break
		}
		switch r.IntN(4) {
		case 0:
			b[at] = byte(r.Uint32())
		case 1:
			copy(b[at:], hurt[r.IntN(len(hurt))])
		case 2:
			b = b[:at]
		case 3:
			b = slices.Insert(b, at, randomBytes(r, 1+r.IntN(20))...)
		}
	}
	return framed(b)
}

func mutated(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.somewhere(r))
	if c == nil {
		return
	}
	defer hangUp(c, r)
	var all []byte
	for range 1 + r.IntN(5) {
		all = append(all, w.mutant(r)...)
		count.Add(1)
	}
	_, _ = c.Write(all)
	listen(c, 30*time.Millisecond)
}

func lengths(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.somewhere(r))
	if c == nil {
		return
	}
	defer hangUp(c, r)
	if r.IntN(2) == 0 {
		_, _ = c.Write(versions())
	}
	size := []uint32{0, 1, 9, 1 << 16, 8 << 20, 100 << 20, 100<<20 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1}[r.IntN(10)]
	b := binary.BigEndian.AppendUint32(nil, size)
	b = append(b, w.requests[r.IntN(len(w.requests))]...)
	_, _ = c.Write(append(b, make([]byte, r.IntN(200_000))...))
	count.Add(1)
	listen(c, 50*time.Millisecond)
}

// trickle holds some hundred connections, each with a large request of which a byte comes now and
// then, behind a first one that gave it more memory.
func trickle(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	var conns []net.Conn
	for range 300 {
		if c := dial(ctx, w.node.strangers()); c != nil {
			head := binary.BigEndian.AppendUint32(versions(), uint32(1<<10<<r.IntN(12)))
			head = append(head, 0, 0, 0, 9, 0, 0, 0, 1)
			_, _ = c.Write(append(head, make([]byte, r.IntN(2)*r.IntN(60<<10))...))
			conns = append(conns, c)
			count.Add(1)
		}
	}
	for ctx.Err() == nil {
		for _, c := range conns {
			_, _ = c.Write([]byte{0})
		}
		rest(ctx, time.Second)
	}
	for _, c := range conns {
		hangUp(c, r)
	}
}

// holders is trickle for requests that are so large that twenty of them have all the memory of large requests.
func holders(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var conns []net.Conn
	for range 20 {
		if c := dial(ctx, w.node.strangers()); c != nil {
			head := binary.BigEndian.AppendUint32(versions(), uint32(4<<20<<r.IntN(5)))
			head = append(head, 0, 0, 0, 9, 0, 0, 0, 1)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // it is not read if it has to wait
			_, _ = c.Write(append(head, make([]byte, 64<<10+r.IntN(100<<10))...))
			conns = append(conns, c)
			count.Add(1)
		}
	}
	for ctx.Err() == nil {
		for _, c := range conns {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write([]byte{0})
		}
		rest(ctx, time.Second)
	}
	for _, c := range conns {
		hangUp(c, r)
	}
}

func silence(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(5+r.IntN(15))*time.Second)
	defer cancel()
	var conns []net.Conn
	for range 300 {
		if c := dial(ctx, w.somewhere(r)); c != nil {
			b := w.mutant(r)
			_, _ = c.Write(b[:r.IntN(len(b))*r.IntN(2)])
			conns = append(conns, c)
			count.Add(1)
		}
	}
	<-ctx.Done()
	for _, c := range conns {
		hangUp(c, r)
	}
}

func resets(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.somewhere(r))
	if c == nil {
		return
	}
	b := framed(w.requests[r.IntN(len(w.requests))])
	_, _ = c.Write(b[:1+r.IntN(len(b))])
	if r.IntN(3) == 0 {
		rest(ctx, time.Duration(r.IntN(5))*time.Millisecond)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	count.Add(1)
}

func crowd(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	var conns []net.Conn
	for range 1 + r.IntN(500) {
		if c := dial(ctx, w.somewhere(r)); c != nil {
			conns = append(conns, c)
			count.Add(1)
		}
	}
	for _, c := range conns {
		hangUp(c, r)
	}
	rest(ctx, 100*time.Millisecond)
}

func logins(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.node.users())
	if c == nil {
		return
	}
	defer hangUp(c, r)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, []string{"PLAIN", "SCRAM-SHA-256", "GSSAPI"}[r.IntN(3)]
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.Version = 2
	token.SASLAuthBytes = [][]byte{[]byte("\x00admin\x00wrong"), []byte("n,,n=admin,r=" + fmt.Sprint(r.Uint64())),
		randomBytes(r, r.IntN(3000)), []byte("\x00" + fmt.Sprint(r.Uint64()) + "\x00x")}[r.IntN(4)]
	_, _ = c.Write(append(request(handshake), request(token)...))
	if r.IntN(4) == 0 {
		_, _ = c.Write(w.mutant(r))
	}
	count.Add(1)
	listen(c, 50*time.Millisecond)
}

func unread(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.node.strangers())
	if c == nil {
		return
	}
	defer hangUp(c, r)
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 11, 100, 1, 50<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "attack-plain"
	for p := range int32(3) {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.PartitionMaxBytes = p, 50<<20
		topic.Partitions = append(topic.Partitions, part)
	}
	fetch.Topics = append(fetch.Topics, topic)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	for range 50 {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(append(request(fetch), request(metadata)...)); err != nil {
			break
		}
		count.Add(1)
	}
	rest(ctx, time.Duration(r.IntN(8))*time.Second)
}

func overHTTP(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.node.http())
	if c == nil {
		return
	}
	defer hangUp(c, r)
	path := []string{"/metrics", "/healthz", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap", "/../../etc/passwd",
		"/debug/pprof/profile?seconds=1e9", "/" + string(bytes.Repeat([]byte("a"), r.IntN(40_000)))}[r.IntN(7)]
	text := "GET " + path + " HTTP/1.1\r\nHost: " + []string{"localhost", "evil.example"}[r.IntN(2)] + "\r\n"
	switch r.IntN(4) {
	case 0: // slowly, for ever
		for i := 0; i < len(text) && ctx.Err() == nil && i < 8; i++ {
			_, _ = c.Write([]byte(text[i : i+1]))
			rest(ctx, time.Second)
		}
	case 1:
		_, _ = c.Write(randomBytes(r, 5000))
	default:
		_, _ = c.Write([]byte(text + "\r\n"))
	}
	count.Add(1)
	listen(c, 100*time.Millisecond)
	rest(ctx, 20*time.Millisecond)
}
