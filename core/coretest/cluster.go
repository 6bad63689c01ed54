package coretest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
	"github.com/millstream-io/millstream/core/vnet"
)

// Options change what Start starts. The zero value is a broker on an in-memory disk and network.
type Options struct {
	// Config are broker settings. Groups rebalance without delay unless it says otherwise.
	Config map[string]string
	// OS puts the data into a temporary directory and listens on a port of the loopback.
	OS bool
	// FS replaces the in-memory disk, such as by a vfs.Fault. Crash is not possible then.
	FS vfs.FS
	// Change has the last word on the broker's options.
	Change func(*core.Options)
}

// Cluster is a running broker.
type Cluster struct {
	t    testing.TB
	opts core.Options
	mem  *vfs.Mem
	log  *logBuffer
	seed uint64

	mu struct {
		sync.Mutex
		broker *core.Broker
	}
}

// logBuffer keeps the broker's log for when the test fails.
type logBuffer struct {
	sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

// address is where the broker listens in its in-memory network.
const address = "broker:9092"

// closeTimeout bounds the drain of a broker whose test is over.
const closeTimeout = 2 * time.Second

// Start starts a broker that is closed when the test ends.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, log: new(logBuffer)}
	config := map[string]string{"group.initial.rebalance.delay.ms": "0"}
	for name, value := range opts.Config {
		config[name] = value
	}
	c.opts = core.Options{
		DataDir: "/millstream", Listen: address, Config: config, Net: vnet.NewPipe(),
		Logger: slog.New(slog.NewTextHandler(c.log, nil)),
	}
	switch {
	case opts.OS:
		c.opts.DataDir, c.opts.Listen = t.TempDir(), "127.0.0.1:0"
		c.opts.Net, c.opts.FS = vnet.TCP(), vfs.OS()
	case opts.FS != nil:
		c.opts.FS = opts.FS
	default:
		c.mem = vfs.NewMem()
		c.opts.FS = c.mem
	}
	if opts.Change != nil {
		opts.Change(&c.opts)
	}
	t.Cleanup(func() {
		c.Stop()
		vfstest.Keep(t, c.opts.FS, c.opts.DataDir)
		if t.Failed() {
			c.log.Lock()
			defer c.log.Unlock()
			t.Logf("log of the broker:\n%s", c.log.String())
		}
	})
	c.open()
	return c
}

// open opens the broker.
func (c *Cluster) open() {
	c.t.Helper()
	b, err := core.Open(context.Background(), c.opts)
	if err != nil {
		c.t.Fatalf("open the broker: %v", err)
	}
	if c.opts.Listen == "127.0.0.1:0" {
		c.opts.Listen = b.Addr() // keep the port over restarts
	}
	c.mu.Lock()
	c.mu.broker = b
	c.mu.Unlock()
}

// Broker returns the broker that runs now.
func (c *Cluster) Broker() *core.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.broker
}

// Addr returns the address that clients bootstrap from.
func (c *Cluster) Addr() string { return c.Broker().Addr() }

// Dialer connects clients to whichever broker runs at that time; it is what kgo.Dialer takes.
func (c *Cluster) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.opts.Net.Dial(ctx, addr)
	}
}

// Client returns a Kafka client of whichever broker runs at that time; opts come after the
// addresses. It is closed with the test, if not before.
func (c *Cluster) Client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	at := []kgo.Opt{kgo.SeedBrokers(c.Addr()), kgo.Dialer(c.Dialer())}
	client, err := kgo.NewClient(append(at, opts...)...)
	require.NoError(c.t, err)
	c.t.Cleanup(client.Close)
	return client
}

// Log returns what the broker has logged so far.
func (c *Cluster) Log() string {
	c.log.Lock()
	defer c.log.Unlock()
	return c.log.String()
}

// Stop closes the broker, if it runs.
func (c *Cluster) Stop() {
	c.t.Helper()
	c.mu.Lock()
	b := c.mu.broker
	c.mu.broker = nil
	c.mu.Unlock()
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		c.t.Logf("close the broker: %v", err)
	}
}

// Start opens the broker again after Stop.
func (c *Cluster) Start() {
	c.t.Helper()
	c.open()
}

// Restart closes the broker in order and opens it again.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Stop()
	c.open()
}

// Crash opens the broker again on the disk that a power cut at this moment leaves: what was
// synced, and of the rest whatever the seed of this crash chooses. The old broker's later writes
// are lost.
func (c *Cluster) Crash() {
	c.t.Helper()
	if c.mem == nil {
		c.t.Fatal("Crash needs the in-memory disk")
	}
	c.seed++
	after := c.mem.CrashClone(c.seed)
	c.Stop()
	c.mem, c.opts.FS = after, after
	c.open()
}
