package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

// followWorkers bounds how many logs are made at once.
const followWorkers = 16

// Options configure a Manager. Dir is required.
type Options struct {
	Dir    *storage.Dir
	NodeID int32        // of this broker
	Logger *slog.Logger // default: discard
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if o.Dir == nil {
		return errors.New("replica options: Dir is nil")
	}
	return nil
}

// Manager has the partitions of this node. All methods are safe for concurrent use.
type Manager struct {
	opts  Options
	table atomic.Pointer[table] // replaced by Apply
	// applyToken is held while Apply changes logs.
	applyToken chan struct{}
}

// table is all partitions at one version of the metadata. It is immutable.
type table struct {
	image  *metadata.Image // nil before the first Apply
	byName map[storage.TopicPartition]*Partition
	byID   map[partitionID]*Partition
	// offline are the partitions whose log cannot be used.
	offline map[partitionID]offline
	// traffic has the counts of the topics that this node has a partition of.
	traffic map[uuid.UUID]*Traffic
}

// offline is a partition without a log that works.
type offline struct {
	tp  storage.TopicPartition
	err error
}

// missing returns why a partition that the metadata knows is not served.
func (t *table) missing(topic *metadata.Topic, partition int32) error {
	if o, ok := t.offline[partitionID{topic.ID, partition}]; ok {
		return fmt.Errorf("%w: %w", ErrOffline, o.err)
	}
	return fmt.Errorf("%s-%d: %w", topic.Name, partition, ErrNotLeader)
}

type partitionID struct {
	topic     uuid.UUID
	partition int32
}

// New returns a manager without partitions; Apply fills it.
func New(opts Options) (*Manager, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	m := &Manager{opts: opts.withDefaults(), applyToken: make(chan struct{}, 1)}
	m.table.Store(&table{})
	return m, nil
}

// Partition returns a partition that this node leads, by name. The name is not kept.
func (m *Manager) Partition(tp storage.TopicPartition) (*Partition, error) {
	t := m.table.Load()
	if p := t.byName[tp]; p != nil {
		return p, p.serving()
	}
	if t.image != nil {
		topic, ok := t.image.Topic(tp.Topic)
		if ok && tp.Partition >= 0 && int(tp.Partition) < len(topic.Partitions) {
			return nil, t.missing(topic, tp.Partition)
		}
	}
	return nil, ErrUnknownPartition
}

// PartitionByID returns a partition that this node leads, by the topic's id.
func (m *Manager) PartitionByID(topic uuid.UUID, partition int32) (*Partition, error) {
	t := m.table.Load()
	if p := t.byID[partitionID{topic, partition}]; p != nil {
		return p, p.serving()
	}
	if t.image == nil {
		return nil, ErrUnknownTopicID
	}
	known, ok := t.image.TopicByID(topic)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s", ErrUnknownTopicID, topic)
	case partition < 0 || int(partition) >= len(known.Partitions):
		return nil, fmt.Errorf("%s-%d: %w", known.Name, partition, ErrUnknownPartition)
	}
	return nil, t.missing(known, partition)
}

// serving returns why a lookup must not give the partition out.
func (p *Partition) serving() error {
	_, err := p.lead(-1)
	return err
}

// Apply follows the metadata to image. When it returns, the partitions this node leads are served.
// Deleted topics' logs are deleted; logs that the metadata never mentioned are left alone, see
// QuarantineStrays. A log that cannot be opened does not keep the others: the errors are joined,
// and the next Apply tries again. An older image than the last one is ignored.
func (m *Manager) Apply(image *metadata.Image) error {
	m.applyToken <- struct{}{}
	defer func() { <-m.applyToken }()
	old := m.table.Load()
	if old.image != nil && image.Version() < old.image.Version() {
		return nil
	}
	next := &table{image: image,
		byName:  make(map[storage.TopicPartition]*Partition, len(old.byName)),
		byID:    make(map[partitionID]*Partition, len(old.byID)),
		offline: make(map[partitionID]offline),
		traffic: make(map[uuid.UUID]*Traffic, len(old.traffic)),
	}
	errs := m.dropGone(old, image)
	var work []*following
	for topic := range image.Topics() {
		unchanged := m.unchanged(old, image, topic)
		for i := range topic.Partitions {
			if !slices.Contains(topic.Partitions[i].Replicas, m.opts.NodeID) {
				continue
			}
			f := &following{topic: topic, index: int32(i), traffic: next.trafficOf(old, topic.ID),
				p: old.byID[partitionID{topic.ID, int32(i)}]}
			work = append(work, f)
			f.done = f.p != nil && unchanged && f.p.LeaderEpoch() == topic.Partitions[i].LeaderEpoch
		}
	}
	m.followAll(image, work)
	for _, f := range work {
		if f.err != nil {
			errs = append(errs, fmt.Errorf("follow the metadata with %s-%d: %w",
				f.topic.Name, f.index, f.err))
		}
		if f.p != nil {
			next.byName[f.p.tp] = f.p
			next.byID[partitionID{f.topic.ID, f.index}] = f.p
		} else if f.err != nil {
			tp := storage.TopicPartition{Topic: f.topic.Name, Partition: f.index}
			next.offline[partitionID{f.topic.ID, f.index}] = offline{tp, f.err}
		}
	}
	m.table.Store(next)
	return errors.Join(errs...)
}

// following is one partition on its way to what an image says.
type following struct {
	topic *metadata.Topic
	index int32
	p     *Partition // nil until its log is open
	// traffic is the topic's.
	traffic *Traffic
	done    bool // nothing to do
	err     error
}

// followAll follows with several goroutines, which it joins: making a log is mostly waiting for the
// disk, and a topic may have many partitions.
func (m *Manager) followAll(image *metadata.Image, work []*following) {
	var next atomic.Int64
	run := func() {
		for i := next.Add(1) - 1; i < int64(len(work)); i = next.Add(1) - 1 {
			if f := work[i]; !f.done {
				f.p, f.err = m.follow(f, image)
			}
		}
	}
	missing := 0
	for _, f := range work {
		if f.p == nil {
			missing++
		}
	}
	var wg sync.WaitGroup
	for range min(missing, followWorkers) - 1 {
		wg.Go(run)
	}
	run()
	wg.Wait()
}

// unchanged reports whether neither the topic nor the defaults of its settings have changed.
func (m *Manager) unchanged(old *table, image *metadata.Image, topic *metadata.Topic) bool {
	if old.image == nil {
		return false
	}
	before, ok := old.image.TopicByID(topic.ID)
	if !ok || before != topic {
		return false
	}
	for _, broker := range []int32{metadata.ClusterDefault, m.opts.NodeID} {
		if !maps.Equal(old.image.BrokerConfig(broker), image.BrokerConfig(broker)) {
			return false
		}
	}
	return true
}

// dropGone deletes the logs of partitions that image does not give to this node any more.
func (m *Manager) dropGone(old *table, image *metadata.Image) []error {
	var gone []storage.TopicPartition
	for id, p := range old.byID {
		if !m.assigned(image, id) {
			p.leave()
			gone = append(gone, p.tp)
		}
	}
	for id, o := range old.offline {
		if _, known := m.opts.Dir.Log(o.tp); known && !m.assigned(image, id) {
			gone = append(gone, o.tp)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	// All together: a topic may have thousands, and the caller of DeleteTopics waits.
	if err := m.opts.Dir.Delete(gone...); err != nil {
		return []error{err}
	}
	m.opts.Logger.Info("logs deleted", "partitions", len(gone), "first", gone[0])
	return nil
}

// assigned reports whether image gives the partition to this node.
func (m *Manager) assigned(image *metadata.Image, id partitionID) bool {
	topic, ok := image.TopicByID(id.topic)
	return ok && int(id.partition) < len(topic.Partitions) &&
		slices.Contains(topic.Partitions[id.partition].Replicas, m.opts.NodeID)
}

// follow opens the partition's log if there is no partition yet, sets its configuration and role.
func (m *Manager) follow(f *following, image *metadata.Image) (*Partition, error) {
	p, topic, index := f.p, f.topic, f.index
	tp := storage.TopicPartition{Topic: topic.Name, Partition: index}
	settings := image.TopicSettings(topic)
	l, err := m.opts.Dir.Create(tp, topic.ID, logConfig(settings))
	if err != nil {
		return p, err
	}
	if p == nil {
		p = newPartition(l, f.traffic)
	}
	assigned := &topic.Partitions[index]
	return p, p.setRole(role{
		leader:      assigned.Leader == m.opts.NodeID,
		leaderEpoch: assigned.LeaderEpoch,
		replicas:    len(assigned.Replicas),
		inSync:      len(assigned.ISR),
		minInSync:   min(settings.MinInsyncReplicas, len(assigned.Replicas)),
	})
}

// logConfig takes what concerns the log from a topic's settings.
func logConfig(s metadata.TopicSettings) storage.Config {
	return storage.Config{
		SegmentBytes:         s.SegmentBytes,
		SegmentMS:            s.SegmentMS,
		SegmentIndexBytes:    s.SegmentIndexBytes,
		IndexIntervalBytes:   s.IndexIntervalBytes,
		RetentionMS:          s.RetentionMS,
		RetentionBytes:       s.RetentionBytes,
		FileDeleteDelayMS:    s.FileDeleteDelayMS,
		MaxMessageBytes:      s.MaxMessageBytes,
		Flush:                storage.FlushPolicy(s.Flush),
		FlushMessages:        s.FlushMessages,
		FlushMS:              s.FlushMS,
		Preallocate:          s.Preallocate,
		SegmentJitterMS:      s.SegmentJitterMS,
		Compact:              s.CleanupCompact,
		LogAppendTime:        s.LogAppendTime,
		TimestampBeforeMaxMS: s.TimestampBeforeMaxMS,
		TimestampAfterMaxMS:  s.TimestampAfterMaxMS,
		SkipVerification:     s.SkipVerification,
		Compression:          compression(s.Compression),
		Delete:               s.CleanupDelete,

		DeleteRetentionMS:      s.DeleteRetentionMS,
		MinCompactionLagMS:     s.MinCompactionLagMS,
		MaxCompactionLagMS:     s.MaxCompactionLagMS,
		MinCleanableDirtyRatio: s.MinCleanableRatio,
	}
}

// compression turns a topic's compression into what its logs take.
func compression(c metadata.Compression) storage.Compression {
	levels := map[string]int{"gzip": c.GzipLevel, "lz4": c.Lz4Level, "zstd": c.ZstdLevel}
	switch c.Type {
	case "producer":
		return storage.Compression{}
	case "uncompressed":
		return storage.Compression{Recode: true}
	}
	codec, err := record.ParseCodec(c.Type)
	if err != nil {
		return storage.Compression{} // a name of a later build: better stored as it came than refused
	}
	return storage.Compression{Recode: true, Codec: codec, Level: levels[c.Type]}
}

// QuarantineStrays sets aside, with suffix -stray, the logs that the metadata does not know: their
// topics were deleted while this node was down. Call it only once the metadata is caught up. It
// returns how many.
func (m *Manager) QuarantineStrays(ctx context.Context) (int, error) {
	m.applyToken <- struct{}{}
	defer func() { <-m.applyToken }()
	t := m.table.Load()
	if t.image == nil {
		return 0, nil
	}
	n := 0
	var errs []error
	for _, l := range m.opts.Dir.Logs() {
		tp := l.TopicPartition()
		topic, ok := t.image.Topic(tp.Topic)
		if ok && int(tp.Partition) < len(topic.Partitions) || errors.Is(l.Err(), storage.ErrDamaged) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return n, errors.Join(append(errs, err)...)
		}
		m.opts.Logger.Warn("log of an unknown partition is set aside", "partition", tp,
			"id", l.TopicID())
		if err := m.opts.Dir.Quarantine(tp); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// Close ends all partitions' service and wakes who waits. The Dir is closed by its owner.
func (m *Manager) Close() {
	for _, p := range m.table.Load().byName {
		p.leave()
	}
}
