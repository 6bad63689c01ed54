package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/server"
	"github.com/millstream-io/millstream/core/server/admin"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/compact"
	"github.com/millstream-io/millstream/core/txn"
	"github.com/millstream-io/millstream/core/vnet"
)

// Broker is a running node.
type Broker struct {
	opts   Options
	log    *slog.Logger
	levels *logLevels

	raftDir, dataDir *storage.Dir
	controller       *controller.Controller
	cleaner          *compact.Cleaner
	replicas         *replica.Manager
	groups           *group.Coordinator
	markers          *markerSender
	transactions     *txn.Coordinator
	server           *server.Server
	// configurable is server, once the follower may give it settings.
	configurable atomic.Pointer[server.Server]
	// latest is the newest metadata image that the follower has seen.
	latest atomic.Pointer[metadata.Image]
	// configuring keeps the settings of an older image from coming last.
	configuring sync.Mutex
	admin       *admin.Server

	// listeners are those of the network, the first one being Addr's.
	listeners    []*openListener
	pipe         net.Listener
	httpListener net.Listener
	// local is the network of clients in this process.
	local *vnet.Pipe
	// follow follows the metadata; see follower.
	follow *follower

	// background waits for the goroutines of Open; stop ends those of the directories.
	background sync.WaitGroup
	stop       context.CancelFunc
	closeOnce  sync.Once
	closeErr   error

	mu struct {
		sync.Mutex
		// failure is the first error of a goroutine of Open.
		failure error
		// draining tells that Close has begun.
		draining bool
	}
	// failed is closed when the broker cannot go on.
	failed chan struct{}
}

// Addr returns the address that the first Kafka listener listens on, host:port.
func (b *Broker) Addr() string { return b.listeners[0].Addr().String() }

// ListenerAddr returns the address that a listener listens on, "" if there is none of that name.
func (b *Broker) ListenerAddr(name string) string {
	for _, l := range b.listeners {
		if l.name == name {
			return l.Addr().String()
		}
	}
	return ""
}

// HTTPAddr returns the address of the HTTP endpoints, "" if there are none.
func (b *Broker) HTTPAddr() string {
	if b.httpListener == nil {
		return ""
	}
	return b.httpListener.Addr().String()
}

// Dial connects to the broker inside this process, without the network. It fits into kgo.Dialer:
// whatever address the metadata tells, this is the broker.
func (b *Broker) Dial(ctx context.Context) (net.Conn, error) {
	c, err := b.local.Dial(ctx, b.pipe.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("dial the broker in this process: %w", err)
	}
	return c, nil
}

// Metrics returns what /metrics is made of, for those who embed a broker without it.
func (b *Broker) Metrics() []metrics.Source {
	return []metrics.Source{b.server, &collector{b}}
}

// ClusterID returns the id of the cluster.
func (b *Broker) ClusterID() string { return b.controller.Image().ClusterID() }

// Failed returns a channel that is closed when the broker cannot go on, as after a disk error.
// Err then says why; Close is still to be called.
func (b *Broker) Failed() <-chan struct{} { return b.failed }

// Err returns why the broker cannot work, nil while it can.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.failure
}

// ready returns why clients are not served, nil when they are.
func (b *Broker) ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.draining {
		return errors.New("closing")
	}
	return b.mu.failure
}

// fail records the first error that ends the broker's work.
func (b *Broker) fail(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	first := b.mu.failure == nil && !b.mu.draining
	if first {
		b.mu.failure = err
	}
	b.mu.Unlock()
	if first {
		b.log.Error("the broker cannot go on", "error", err.Error())
		close(b.failed)
	}
}

// Close stops taking requests, answers those that were read until ctx ends, and leaves everything
// on the disk in order, so that the next Open need not recover. It is idempotent.
func (b *Broker) Close(ctx context.Context) error {
	b.closeOnce.Do(func() { b.closeErr = b.close(ctx) })
	return b.closeErr
}

// close ends what open has started, in the opposite order; parts that were not started are nil.
func (b *Broker) close(ctx context.Context) error {
	b.mu.Lock()
	b.mu.draining = true
	b.mu.Unlock()
	var errs []error
	if b.transactions != nil {
		b.transactions.Close() // before the groups, which take its markers
	}
	if b.groups != nil {
		// First, since members that wait for a rebalance would hold up the server's close.
		b.groups.Close()
	}
	if b.server != nil {
		errs = append(errs, b.server.Close(ctx))
	}
	for _, l := range b.listeners {
		closeListener(l.Listener)
	}
	closeListener(b.pipe)
	if b.admin != nil {
		errs = append(errs, b.admin.Close(ctx))
	}
	closeListener(b.httpListener)
	if b.controller != nil {
		errs = append(errs, b.controller.Close())
	}
	if b.follow != nil {
		b.follow.close() // nobody calls it any more
	}
	if b.replicas != nil {
		b.replicas.Close()
	}
	b.stop()
	b.background.Wait()
	for _, dir := range []*storage.Dir{b.dataDir, b.raftDir} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	return errors.Join(errs...)
}

// closeListener closes a listener that nobody may have served.
func closeListener(l net.Listener) {
	if l != nil {
		_ = l.Close() // closed already by the one who served it
	}
}
