package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"crypto/rand"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
)

const (
	// maxQueue bounds the commands that wait for the proposer; more wait in their calls.
	maxQueue = 256
	// maxEntryCommands and maxEntryBytes bound the commands of one entry.
	maxEntryCommands = 64
	maxEntryBytes    = 4 << 20
)

// Options are the parts a controller is made of.
type Options struct {
	// Raft says where the metadata log lives. ID, StateMachine, Logger and Rand are filled in.
	Raft      raft.Options
	NodeID    int32  // of this node, 0 or larger
	ClusterID string // of a new cluster, and checked on an old one; "" takes what is there
	// Config are the broker settings this node was started with.
	Config map[string]string
	Logger *slog.Logger // default: discard
	Rand   io.Reader    // ids; default crypto/rand
}

// Controller takes commands and keeps the image. All methods are safe for concurrent use.
type Controller struct {
	opts    Options
	log     *slog.Logger
	node    *raft.Node
	machine *machine

	commands chan *call
	watches  chan *watchRequest
	image    atomic.Pointer[metadata.Image] // what watchers have seen
	lifetime context.Context                // ends at Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	published struct {
		sync.Mutex
		waiting []waiter // calls whose change is applied, not published
	}
}

// call is a command on its way.
type call struct {
	request uuid.UUID
	command command
	result  chan callResult // of capacity 1
}

type callResult struct {
	reply json.RawMessage
	err   error
}

// waiter is a call that waits for the image of a version.
type waiter struct {
	version int64
	done    chan struct{} // closed when published
}

// Open restores the metadata from the disk, waits until all of it is applied, and makes the
// cluster if there is none. ctx bounds the wait.
func Open(ctx context.Context, opts Options) (*Controller, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Rand == nil {
		opts.Rand = rand.Reader
	}
	if opts.NodeID < 0 {
		return nil, fmt.Errorf("open controller: node id %d is negative", opts.NodeID)
	}
	if err := metadata.ValidateStaticConfigs(opts.Config); err != nil {
		return nil, fmt.Errorf("open controller: %w", err)
	}
	c := &Controller{
		opts:     opts,
		log:      opts.Logger,
		machine:  newMachine(opts.NodeID, opts.Config, nodeID),
		commands: make(chan *call, maxQueue),
		watches:  make(chan *watchRequest),
	}
	c.image.Store(metadata.NewImage(opts.NodeID, opts.Config))
	c.lifetime, c.cancel = context.WithCancel(context.Background())

	ro := opts.Raft
	ro.ID, ro.StateMachine, ro.Logger, ro.Rand = raftID(opts.NodeID), c.machine, opts.Logger, opts.Rand
	node, err := raft.Open(ro)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("open controller: %w", err)
	}
	c.node = node
	c.wg.Go(c.propose)
	c.wg.Go(c.publish)
	if err := c.formCluster(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open controller: %w", err), c.Close())
	}
	return c, nil
}

// raftID and nodeID map node ids, which begin at 0, to raft's, where 0 is nobody.
func raftID(node int32) uint64 { return uint64(node) + 1 }

func nodeID(id uint64) int32 { return int32(id) - 1 } // 0 becomes metadata.NoLeader

// formCluster makes the cluster's record, or checks the one that is there. Being a command, it also
// waits until everything before it is applied and published.
func (c *Controller) formCluster(ctx context.Context) error {
	id := c.opts.ClusterID
	if id == "" {
		fresh, err := uuid.NewRandomFromReader(c.opts.Rand)
		if err != nil {
			return fmt.Errorf("draw a cluster id: %w", err)
		}
		id = clusterIDText(fresh)
	}
	var reply formReply
	if err := c.do(ctx, &formCluster{ClusterID: id}, &reply); err != nil {
		return err
	}
	if c.opts.ClusterID != "" && reply.ClusterID != c.opts.ClusterID {
		return fmt.Errorf("%w: %s, expected %s",
			ErrForeignCluster, reply.ClusterID, c.opts.ClusterID)
	}
	return nil
}

// Image returns the newest metadata that all watchers have seen.
func (c *Controller) Image() *metadata.Image { return c.image.Load() }

// Raft returns where the metadata log is, and what its node counts.
func (c *Controller) Raft() (raft.Status, *raft.Counters) {
	return c.node.Status(), c.node.Counters()
}

// Term returns the term of the node that leads the controllers.
func (c *Controller) Term() uint64 { return c.node.Term() }

// Done is closed when the controller has ended, by Close or a failure (Err). The process should
// then end too.
func (c *Controller) Done() <-chan struct{} { return c.node.Done() }

// Err returns why the controller ended by itself, or nil.
func (c *Controller) Err() error {
	if err := c.node.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

// Close ends the controller and joins its goroutines. Calls on their way return ErrClosed. It
// returns Err; a second call does no more.
func (c *Controller) Close() error {
	c.cancel()
	_ = c.node.Close() // its error is Err
	c.wg.Wait()
	return c.Err()
}

func (c *Controller) endError() error {
	if err := c.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// do runs a command and decodes its reply.
func (c *Controller) do(ctx context.Context, cmd command, reply any) error {
	request, err := uuid.NewRandomFromReader(c.opts.Rand)
	if err != nil {
		return fmt.Errorf("draw a request id: %w", err)
	}
	return c.doRequest(ctx, request, cmd, reply)
}

// doRequest is do with a request id of its own: a command of a known id is answered, not repeated.
func (c *Controller) doRequest(
	ctx context.Context, request uuid.UUID, cmd command, reply any,
) error {
	p := &call{request: request, command: cmd, result: make(chan callResult, 1)}
	select {
	case c.commands <- p:
	case <-c.lifetime.Done():
		return c.endError()
	case <-c.node.Done():
		return c.endError()
	case <-ctx.Done():
		return fmt.Errorf("controller command: %w", ctx.Err())
	}
	var r callResult
	select {
	case r = <-p.result:
	case <-c.lifetime.Done():
		return c.endError()
	case <-c.node.Done():
		return c.endError()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	if r.err != nil {
		return r.err
	}
	if err := json.Unmarshal(r.reply, reply); err != nil {
		return fmt.Errorf("decode reply: %w", err)
	}
	return nil
}
