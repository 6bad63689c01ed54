package core

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/server"
	"github.com/millstream-io/millstream/core/server/admin"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/compact"
	"github.com/millstream-io/millstream/core/txn"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
)

// ErrMetadataLost says that there are partitions, but no metadata log that knows them.
var ErrMetadataLost = errors.New("the metadata log is lost")

// Open starts a broker. It returns when clients are served. A data directory that another process
// uses is refused with that process's pid (vfs.ErrLocked).
func Open(ctx context.Context, opts Options) (*Broker, error) {
	opts.withDefaults()
	opts.takeNodeID()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("open broker: %w", err)
	}
	levels := newLogLevels(opts.Logger.Handler())
	b := &Broker{opts: opts, levels: levels, log: levels.logger(loggerBroker),
		failed: make(chan struct{})}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	if err := b.open(ctx, run); err != nil {
		_ = b.close(ctx)
		return nil, fmt.Errorf("open broker on %s: %w", opts.DataDir, err)
	}
	b.log.Info("broker is ready", "address", b.Addr(), "http", b.HTTPAddr(),
		"node", opts.NodeID, "cluster", b.ClusterID(), "data", opts.DataDir)
	return b, nil
}

// open starts the parts, lowest first. ctx bounds the start, run the life of the goroutines.
func (b *Broker) open(ctx, run context.Context) error {
	if err := b.openDirs(ctx, run); err != nil {
		return err
	}
	if err := b.checkMetadataIsThere(); err != nil {
		return err
	}
	if err := b.openController(ctx); err != nil {
		return err
	}
	if err := b.listen(ctx); err != nil {
		return err
	}
	if err := b.register(ctx); err != nil {
		return err
	}
	if err := b.adopt(ctx); err != nil {
		return err
	}
	if err := b.openReplicas(ctx); err != nil {
		return err
	}
	if err := b.openServer(); err != nil {
		return err
	}
	b.background.Go(func() { b.cleaner.Run(run) })
	for _, l := range b.listeners {
		b.background.Go(func() { b.serve(run, l, l.how) })
	}
	// Whoever has this process in hand may do everything.
	trusted := &server.Listener{Name: b.listeners[0].name, Trusted: true}
	b.background.Go(func() { b.serve(run, b.pipe, trusted) })
	return b.openAdmin()
}

func (b *Broker) dataPath() string { return filepath.Join(b.opts.DataDir, "data") }

// quorumPath is where the controller keeps what it voted for, from its first start on.
func (b *Broker) quorumPath() string { return filepath.Join(b.raftPath(), "quorum") }

func (b *Broker) raftPath() string { return filepath.Join(b.opts.DataDir, "raft") }

// openDirs opens the data directory, with the lock that keeps other processes out of both.
func (b *Broker) openDirs(ctx, run context.Context) error {
	data := b.dataPath()
	if err := makeDir(b.opts.FS, data); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	static := metadata.NewImage(b.opts.NodeID, b.opts.Config)
	millis := func(name string, fallback time.Duration) time.Duration {
		ms := static.BrokerConfigInt(name, fallback.Milliseconds())
		return time.Duration(ms) * time.Millisecond
	}
	var err error
	b.dataDir, err = storage.OpenDir(ctx, storage.DirOptions{
		FS: b.opts.FS, Path: data, NodeID: b.opts.NodeID, Now: b.opts.Now,
		Logger:              b.levels.logger(loggerStorage),
		Reserve:             reservedSpace,
		MaxOpenFiles:        vfs.MaxOpenFiles() / 2, // the rest is for connections
		RetentionInterval:   millis("log.retention.check.interval.ms", 5*time.Minute),
		CheckpointInterval:  millis("log.flush.offset.checkpoint.interval.ms", time.Minute),
		StartOffsetInterval: millis("log.flush.start.offset.checkpoint.interval.ms", time.Minute),
		HighWatermarkInterval: millis("replica.high.watermark.checkpoint.interval.ms",
			5*time.Second),
		RecoveryThreads: b.recoveryThreads(),
		Settings:        settings{static}.dir(),
	})
	if err != nil {
		return err
	}
	b.raftDir, err = storage.OpenDir(ctx, storage.DirOptions{
		FS: b.opts.FS, Path: b.raftPath(), NodeID: b.opts.NodeID,
		ClusterID: b.dataDir.ClusterID(), Logger: b.levels.logger(loggerStorage), Now: b.opts.Now,
	})
	if err != nil {
		return err
	}
	for _, dir := range []*storage.Dir{b.raftDir, b.dataDir} {
		b.background.Go(func() { b.fail(dir.Run(run)) })
	}
	return nil
}

// recoveryThreads is num.recovery.threads.per.data.dir where somebody set it, else 0.
func (b *Broker) recoveryThreads() int {
	n, err := strconv.Atoi(b.opts.Config["num.recovery.threads.per.data.dir"])
	if err != nil {
		return 0
	}
	return n
}

// reservedSpace is what records leave free on the disk, in bytes: metadata changes are refused
// below 1 MiB, and without them nobody could start on a full disk or delete a topic.
const reservedSpace = 4 << 20

// checkMetadataIsThere refuses a directory that lost its metadata log: a new one knows none of the
// partitions, so that all of them would be set aside.
func (b *Broker) checkMetadataIsThere() error {
	if _, isKafkas := b.dataDir.Log(raft.LogPartition); isKafkas {
		return nil // see adopt
	}
	_, err := b.opts.FS.Stat(b.quorumPath())
	if n := len(b.dataDir.Logs()); n > 0 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing, but %s has %d partitions: restore %s from a backup, or "+
			"move %s away to begin anew", ErrMetadataLost, b.quorumPath(), b.dataPath(), n,
			b.raftPath(), b.opts.DataDir)
	}
	return nil
}

// makeDir makes a directory and its parents, each of which survives a power cut: the names of those
// that are new are synced.
func makeDir(fsys vfs.FS, dir string) error {
	var made []string
	for d := filepath.Clean(dir); d != filepath.Dir(d); d = filepath.Dir(d) {
		if _, err := fsys.Stat(d); err == nil {
			break
		}
		made = append(made, d)
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range made {
		if err := fsys.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// openController replays the metadata.
func (b *Broker) openController(ctx context.Context) error {
	log, err := raft.OpenLog(b.raftDir)
	if err != nil {
		return err
	}
	b.controller, err = controller.Open(ctx, controller.Options{
		Raft: raft.Options{
			FS: b.opts.FS, Dir: b.quorumPath(), Log: log, Now: b.opts.Now,
		},
		NodeID: b.opts.NodeID, ClusterID: b.dataDir.ClusterID(), Config: b.opts.Config,
		Logger: b.levels.logger(loggerController),
	})
	if err != nil {
		return err
	}
	b.background.Go(func() {
		<-b.controller.Done()
		b.fail(b.controller.Err())
	})
	return nil
}

// listen takes the addresses, so that the broker can be registered with the real ones.
func (b *Broker) listen(ctx context.Context) error {
	err := b.openListeners(ctx)
	if err != nil {
		return err
	}
	if b.opts.HTTPListen != "" {
		if b.httpListener, err = b.opts.Net.Listen(ctx, b.opts.HTTPListen); err != nil {
			return fmt.Errorf("listen for HTTP: %w", err)
		}
		if err := b.checkReach(b.httpListener.Addr(), false); err != nil {
			return fmt.Errorf("listen for HTTP: %w", err)
		}
	}
	b.local = vnet.NewPipe()
	b.pipe, err = b.local.Listen(ctx, "broker:9092")
	return err
}

// register tells the cluster where this broker is.
func (b *Broker) register(ctx context.Context) error {
	endpoints, err := b.endpoints()
	if err != nil {
		return err
	}
	_, err = b.controller.RegisterBroker(ctx, controller.Registration{
		Broker: metadata.Broker{
			ID: b.opts.NodeID, Host: endpoints[0].Host, Port: endpoints[0].Port, Endpoints: endpoints,
			Rack: b.opts.Config["broker.rack"], DirectoryID: b.dataDir.DirectoryID(),
		},
		Clean: b.dataDir.WasClean(),
	})
	if err != nil {
		return fmt.Errorf("register broker: %w", err)
	}
	return nil
}

// openReplicas makes what follows the metadata: partitions, both coordinators, compaction.
func (b *Broker) openReplicas(ctx context.Context) error {
	var err error
	b.replicas, err = replica.New(replica.Options{
		Dir: b.dataDir, NodeID: b.opts.NodeID, Logger: b.levels.logger(loggerReplica),
	})
	if err != nil {
		return err
	}
	if err := b.openGroups(); err != nil {
		return err
	}
	s := settings{b.controller.Image()}
	if err := b.openTransactions(s.transactions()); err != nil {
		return err
	}
	b.cleaner, err = compact.New(compact.Options{
		Dir: b.dataDir, Logger: b.log, Now: b.opts.Now, Settings: s.cleaner(),
	})
	if err != nil {
		return err
	}
	b.follow = newFollower(b)
	if err := b.follow.start(); err != nil {
		return err
	}
	_, err = b.replicas.QuarantineStrays(ctx)
	return err
}

// openTransactions makes the transaction coordinator; opts have its settings.
func (b *Broker) openTransactions(opts txn.Options) error {
	b.markers = &markerSender{replicas: b.replicas, groups: b.groups, image: b.controller.Image}
	opts.Log = &internalLog{b.replicas, txn.TopicName}
	opts.Markers = b.markers
	opts.AllocateProducerIDs = b.controller.AllocateProducerIDs
	opts.TransactionVersion = func() int16 {
		return int16(b.controller.Image().FeatureLevel(metadata.TransactionVersion))
	}
	opts.Logger, opts.Now = b.levels.logger(loggerTxn), b.opts.Now
	var err error
	b.transactions, err = txn.New(opts)
	return err
}

func (b *Broker) openServer() error {
	data := b.dataPath()
	authorizer, err := b.authorizer()
	if err != nil {
		return err
	}
	srv, err := server.New(server.Options{
		NodeID: b.opts.NodeID, Controller: b.controller, Replicas: b.replicas, Groups: b.groups,
		Transactions: b.transactions, Markers: b.markers, Authorizer: authorizer,
		Dir: b.dataDir, DirPath: data, Logger: b.levels.logger(loggerServer), LogLevels: b.levels,
		Limits:     settings{b.controller.Image()}.limits(b.opts.Limits),
		Quotas:     settings{b.controller.Image()}.quotas(),
		FreeBytes:  func() (uint64, error) { return b.opts.FS.Free(data) },
		TotalBytes: func() (uint64, error) { return vfs.Total(b.opts.FS, data) },
	})
	if err != nil {
		return err
	}
	b.server = srv
	b.configurable.Store(srv)
	b.applySettings()
	return nil
}

// serve accepts clients until the broker closes.
func (b *Broker) serve(ctx context.Context, l net.Listener, how *server.Listener) {
	if err := b.server.ServeListener(ctx, l, how); b.ready() == nil {
		b.fail(err)
	}
}

// openAdmin starts the HTTP endpoints.
func (b *Broker) openAdmin() error {
	if b.httpListener == nil {
		return nil
	}
	b.admin = admin.New(admin.Options{
		Healthy: b.Err, Ready: b.ready, Logger: b.log,
		Sources:  append(b.Metrics(), b.opts.Metrics...),
		Handlers: b.opts.HTTPHandlers,
	})
	b.background.Go(func() {
		if err := b.admin.Serve(b.httpListener); err != nil {
			b.fail(err)
		}
	})
	return nil
}
