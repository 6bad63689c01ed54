package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// Settings are the broker's settings of compaction. Names and defaults are Kafka's.
type Settings struct {
	Disabled bool // log.cleaner.enable=false
	Threads  int  // log.cleaner.threads: logs compacted at once
	// DedupeBufferBytes is log.cleaner.dedupe.buffer.size: memory of the offset maps of all threads.
	DedupeBufferBytes int64
	LoadFactor        float64 // log.cleaner.io.buffer.load.factor: how full they may get, 0 to 1
	IOBufferBytes     int     // log.cleaner.io.buffer.size: read buffers of all threads
	// MaxBytesPerSecond is log.cleaner.io.max.bytes.per.second, reads and writes together.
	MaxBytesPerSecond float64
	Backoff           time.Duration // log.cleaner.backoff.ms: pause when no log needs compaction
}

func (s Settings) withDefaults() Settings {
	if s.Threads <= 0 {
		s.Threads = 1
	}
	if s.DedupeBufferBytes <= 0 {
		s.DedupeBufferBytes = 128 << 20
	}
	if s.LoadFactor <= 0 || s.LoadFactor > 1 {
		s.LoadFactor = 0.9
	}
	if s.IOBufferBytes <= 0 {
		s.IOBufferBytes = 512 << 10
	}
	if s.MaxBytesPerSecond <= 0 {
		s.MaxBytesPerSecond = math.MaxFloat64
	}
	if s.Backoff < 0 {
		s.Backoff = 15 * time.Second
	}
	return s
}

// Options configure a Cleaner. Dir is required.
type Options struct {
	Dir      *storage.Dir
	Logger   *slog.Logger     // default: discard
	Now      func() time.Time // wall clock; default time.Now
	Settings Settings
}

// Cleaner compacts the logs of a directory that ask for it. All methods are safe for concurrent
// use.
type Cleaner struct {
	dir      *storage.Dir
	logger   *slog.Logger
	now      func() time.Time
	throttle throttle

	settings atomic.Pointer[Settings]
	changed  chan struct{} // capacity 1: settings are new

	mu struct {
		sync.Mutex
		busy map[*storage.Log]bool // being compacted
		// uncleanable are logs whose compaction failed for a reason that time does not cure.
		uncleanable map[*storage.Log]error
	}
	stats struct {
		runs, read, before, after atomic.Int64
		lastRun                   atomic.Int64 // wall clock, ms
		dirtiest                  atomic.Uint64
	}
}

// Stats is what was done since the start.
type Stats struct {
	Runs        int64   // compactions of a log
	BytesRead   int64   // of segments
	BytesBefore int64   // of the segments that were replaced
	BytesAfter  int64   // of those that replaced them
	LastRunMS   int64   // wall clock when logs were looked at last, ms; 0 = never
	MaxDirty    float64 // dirty ratio of the dirtiest log then
	// Uncleanable are the partitions that are skipped until a restart, see the log.
	Uncleanable []storage.TopicPartition
}

// New returns a cleaner; Run makes it work.
func New(o Options) (*Cleaner, error) {
	if o.Dir == nil {
		return nil, errors.New("cleaner: no data directory")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cleaner{dir: o.Dir, logger: o.Logger, now: o.Now, changed: make(chan struct{}, 1)}
	c.mu.busy = map[*storage.Log]bool{}
	c.mu.uncleanable = map[*storage.Log]error{}
	s := o.Settings.withDefaults()
	c.settings.Store(&s)
	return c, nil
}

// Configure changes the settings. What is being compacted stops and begins anew with them.
func (c *Cleaner) Configure(s Settings) {
	s = s.withDefaults()
	if *c.settings.Swap(&s) == s {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Stats returns what was done so far.
func (c *Cleaner) Stats() Stats {
	s := Stats{Runs: c.stats.runs.Load(), BytesRead: c.stats.read.Load(),
		BytesBefore: c.stats.before.Load(), BytesAfter: c.stats.after.Load(),
		LastRunMS: c.stats.lastRun.Load(), MaxDirty: math.Float64frombits(c.stats.dirtiest.Load())}
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.mu.uncleanable {
		s.Uncleanable = append(s.Uncleanable, l.TopicPartition())
	}
	return s
}

// Run compacts until ctx ends. Call it once; it returns after its goroutines have.
func (c *Cleaner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s := *c.settings.Load()
		working, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		if !s.Disabled {
			for range s.Threads {
				wg.Go(func() { c.work(working, s) })
			}
		}
		select {
		case <-ctx.Done():
		case <-c.changed:
		}
		stop()
		wg.Wait()
	}
}

// work is one thread.
func (c *Cleaner) work(ctx context.Context, s Settings) {
	for ctx.Err() == nil {
		if c.cleanDirtiest(ctx, s) {
			continue
		}
		if sleep(ctx, max(s.Backoff, time.Millisecond)) != nil {
			return
		}
	}
}

// CleanNow compacts all logs that need it, one after another, and returns how many times it did.
func (c *Cleaner) CleanNow(ctx context.Context) int {
	n := 0
	for ctx.Err() == nil && c.cleanDirtiest(ctx, *c.settings.Load()) {
		n++
	}
	return n
}

// cleanDirtiest compacts the log with the largest dirty ratio of those that need it. It reports
// whether it moved on.
func (c *Cleaner) cleanDirtiest(ctx context.Context, s Settings) bool {
	c.rollOverdue()
	p, ok := c.grab()
	if !ok {
		return false
	}
	defer c.giveBack(p.log)
	res, err := clean(ctx, p, s, c.now(), func(n int) error {
		return c.throttle.wait(ctx, n, s.MaxBytesPerSecond)
	})
	c.stats.read.Add(res.bytesRead)
	c.stats.before.Add(res.bytesBefore)
	c.stats.after.Add(res.bytesAfter)
	if err != nil {
		c.failed(ctx, p.log, err)
		return false
	}
	c.stats.runs.Add(1)
	c.logger.Info("log compacted", "partition", p.log.TopicPartition(), "from", p.firstDirty,
		"to", res.end, "bytes", res.bytesBefore, "kept", res.bytesAfter,
		"records", res.recordsRead, "records_kept", res.recordsKept, "segments", res.segments,
		"became", res.groups, "map_took", res.mapTook, "rewrite_took", res.rewriteTook,
		"buffer_use", fmt.Sprintf("%.2f", res.bufferUse))
	if res.recordsWithoutKey > 0 {
		c.logger.Warn("records without a key were dropped by compaction",
			"partition", p.log.TopicPartition(), "records", res.recordsWithoutKey)
	}
	return res.end > p.firstDirty
}

// failed sorts out why a compaction ended early.
func (c *Cleaner) failed(ctx context.Context, l *storage.Log, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, storage.ErrCleaningVoid),
		errors.Is(err, storage.ErrCleaningBusy), errors.Is(err, storage.ErrClosed),
		errors.Is(err, storage.ErrDirFailed):
		c.logger.Debug("compaction ended early", "partition", l.TopicPartition(), "error", err)
	case errors.Is(err, storage.ErrNoSpace), errors.Is(err, storage.ErrNoFiles), vfs.FileLimit(err):
		c.logger.Warn("no space to compact, trying again later", "partition", l.TopicPartition(),
			"error", err)
	default:
		c.logger.Error("partition cannot be compacted and is skipped until a restart",
			"partition", l.TopicPartition(), "error", err)
		c.mu.Lock()
		c.mu.uncleanable[l] = err
		c.mu.Unlock()
	}
}

// rollOverdue seals active segments with records that max.compaction.lag.ms wants compacted.
func (c *Cleaner) rollOverdue() {
	for _, l := range c.dir.Logs() {
		if !l.Config().Compact || l.Err() != nil {
			continue
		}
		if _, err := l.RollForCompaction(); err != nil && !errors.Is(err, storage.ErrClosed) {
			c.logger.Warn("active segment not sealed for compaction", "partition",
				l.TopicPartition(), "error", err)
		}
	}
}

// grab picks the dirtiest log that is due and marks it busy.
func (c *Cleaner) grab() (plan, bool) {
	now := c.now().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.lastRun.Store(now)
	var best plan
	dirtiest := 0.0
	logs := c.dir.Logs()
	c.forgetGoneLocked(logs)
	for _, l := range logs {
		config := l.Config()
		if !config.Compact || l.Err() != nil || c.mu.busy[l] || c.mu.uncleanable[l] != nil {
			continue
		}
		st := l.CleanState()
		if len(st.Segments) == 0 {
			continue // closed meanwhile
		}
		p := planOf(&st, &config, now)
		p.log = l
		c.correctCheckpoint(&st, &p, config.Delete)
		dirtiest = max(dirtiest, p.ratio())
		if p.due(&config) && (best.log == nil || p.ratio() > best.ratio()) {
			best = p
		}
	}
	c.stats.dirtiest.Store(math.Float64bits(dirtiest))
	if best.log == nil {
		return best, false
	}
	c.mu.busy[best.log] = true
	return best, true
}

// correctCheckpoint takes back a checkpoint that is outside of the log: records were deleted past
// it, or the log's end was lost.
func (c *Cleaner) correctCheckpoint(st *storage.CleanState, p *plan, deletes bool) {
	if !p.invalid {
		return
	}
	if !deletes || st.CleanedOffset > st.EndOffset {
		c.logger.Warn("compaction begins anew, its checkpoint is outside of the log", "partition",
			p.log.TopicPartition(), "checkpoint", st.CleanedOffset, "start", st.StartOffset,
			"end", st.EndOffset)
	}
	if err := p.log.SetCleanedOffset(p.firstDirty); err != nil {
		c.logger.Warn("cleaner checkpoint not written", "partition", p.log.TopicPartition(),
			"error", err)
	}
}

// forgetGoneLocked drops what is kept of logs that are no more.
func (c *Cleaner) forgetGoneLocked(logs []*storage.Log) {
	if len(c.mu.uncleanable) == 0 {
		return
	}
	here := make(map[*storage.Log]bool, len(logs))
	for _, l := range logs {
		here[l] = true
	}
	for l := range c.mu.uncleanable {
		if !here[l] {
			delete(c.mu.uncleanable, l)
		}
	}
}

func (c *Cleaner) giveBack(l *storage.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.busy, l)
}
