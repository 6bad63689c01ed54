package core

import (
	"context"
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
	"github.com/millstream-io/millstream/core/vfs"
)

// collector writes what is read off the parts of a broker when somebody asks.
type collector struct{ b *Broker }

// coordinatorWait bounds what a page waits for the coordinators, whose partitions may stand still
// while a disk does. That is when the page is needed most.
const coordinatorWait = time.Second

// WriteMetrics implements metrics.Source.
func (c *collector) WriteMetrics(p *metrics.Page) {
	b := c.b
	p.Begin(famBuild)
	p.Int(1, strconv.Itoa(int(b.opts.NodeID)), b.ClusterID())
	c.writeRaft(p)
	c.writeReplicas(p)
	c.writeTraffic(p)
	c.writeDirs(p)
	c.writeCleaner(p)
	ctx, cancel := context.WithTimeout(context.Background(), coordinatorWait)
	defer cancel()
	transactions := c.writeTransactions(ctx, p)
	most := int(b.controller.Image().BrokerConfigInt("metrics.series.max", 0))
	partitions := b.replicas.All()
	offsets := c.writeGroups(ctx, p, most, transactions)
	p.Begin(famOmitted)
	p.Int(int64(omitted(len(partitions), most)), "partitions")
	p.Int(int64(omitted(offsets, most)), "committed offsets")
	c.writePartitions(p, partitions, most)
}

// omitted is how many of n samples are left out when at most so many are told: all or none.
func omitted(n, most int) int {
	if n <= most {
		return 0
	}
	return n
}

func (c *collector) writeRaft(p *metrics.Page) {
	b := c.b
	status, counts := b.controller.Raft()
	image := b.controller.Image()
	p.Begin(famController)
	p.Bool(image.ControllerID() == b.opts.NodeID)
	p.One(famTerm, int64(status.Term))
	p.One(famLastIndex, int64(status.Last))
	p.One(famCommitIndex, int64(status.Committed))
	p.One(famAppliedIndex, int64(status.Applied))
	p.One(famVersion, image.Version())
	p.Begin(famProposals)
	p.Histogram(&counts.Proposals)
	p.One(famElections, counts.Elections.Load())
	p.One(famSnapshots, counts.Snapshots.Load())
}

func (c *collector) writeReplicas(p *metrics.Page) {
	s := c.b.replicas.Status()
	p.One(famTopics, int64(c.b.controller.Image().TopicCount()))
	p.One(famPartitions, int64(s.Partitions))
	p.One(famLeading, int64(s.Leading))
	p.One(famOffline, int64(s.Offline))
	p.One(famUnderReplicated, int64(s.UnderReplicated))
	p.One(famUnderMin, int64(s.UnderMinISR))
	p.One(famAtMin, int64(s.AtMinISR))
}

// writeTraffic writes what clients did, together and topic by topic.
func (c *collector) writeTraffic(p *metrics.Page) {
	all, topics := c.b.server.Traffic(), c.b.replicas.Traffic()
	for _, f := range []struct {
		family *metrics.Family
		of     func(*replica.Traffic) int64
	}{
		{famBytesIn, func(t *replica.Traffic) int64 { return t.BytesIn.Load() }},
		{famRecordsIn, func(t *replica.Traffic) int64 { return t.RecordsIn.Load() }},
		{famBytesOut, func(t *replica.Traffic) int64 { return t.BytesOut.Load() }},
		{famProduces, func(t *replica.Traffic) int64 { return t.Produces.Load() }},
		{famFailedProduces, func(t *replica.Traffic) int64 { return t.FailedProduces.Load() }},
		{famFetches, func(t *replica.Traffic) int64 { return t.Fetches.Load() }},
		{famFailedFetches, func(t *replica.Traffic) int64 { return t.FailedFetches.Load() }},
	} {
		p.Begin(f.family)
		p.Int(f.of(all), "")
		for _, t := range topics {
			p.Int(f.of(t.Traffic), t.Topic)
		}
	}
}

// writeDirs writes what the directories count.
func (c *collector) writeDirs(p *metrics.Page) {
	b := c.b
	dirs := []struct {
		name string
		dir  *storage.Dir
	}{{"data", b.dataDir}, {"raft", b.raftDir}}
	each := func(f *metrics.Family, of func(*storage.Dir) int64) {
		p.Begin(f)
		for _, d := range dirs {
			p.Int(of(d.dir), d.name)
		}
	}
	p.Begin(famOpen)
	for _, d := range dirs {
		p.Seconds(d.dir.Counters().OpenTook(), d.name)
	}
	each(famRecovered, func(d *storage.Dir) int64 { return d.Counters().Recovered.Load() })
	p.Begin(famOfflineDirs)
	p.Bool(b.dataDir.Err() != nil)
	p.Begin(famDisk)
	if free, err := b.opts.FS.Free(b.dataPath()); err == nil {
		p.Float(float64(free), "free")
	}
	if total, err := vfs.Total(b.opts.FS, b.dataPath()); err == nil {
		p.Float(float64(total), "total")
	}
	p.Begin(famSyncs)
	for _, d := range dirs {
		p.Histogram(&d.dir.Counters().Syncs, d.name)
	}
	each(famFlushQueue, func(d *storage.Dir) int64 { return int64(d.FlushQueue()) })
	each(famRolls, func(d *storage.Dir) int64 { return d.Counters().Rolls.Load() })
	each(famExpired, func(d *storage.Dir) int64 { return d.Counters().ExpiredSegments.Load() })
	each(famExpiredBytes, func(d *storage.Dir) int64 { return d.Counters().ExpiredBytes.Load() })
	each(famRemovals, func(d *storage.Dir) int64 { return int64(d.RemovalsPending()) })
	each(famDamages, func(d *storage.Dir) int64 { return d.Counters().Damages.Load() })
	each(famScrubbed, func(d *storage.Dir) int64 { return d.Counters().ScrubbedBytes.Load() })
	each(famCheckpointErrors, func(d *storage.Dir) int64 {
		return d.Counters().CheckpointErrors.Load()
	})
}

// writeCleaner writes what compaction did.
func (c *collector) writeCleaner(p *metrics.Page) {
	s := c.b.cleaner.Stats()
	p.One(famCleanerRuns, s.Runs)
	p.One(famCleanerRead, s.BytesRead)
	p.One(famCleanerBefore, s.BytesBefore)
	p.One(famCleanerAfter, s.BytesAfter)
	p.Begin(famCleanerLast)
	p.Float(float64(s.LastRunMS) / 1000)
	p.Begin(famCleanerDirty)
	p.Float(s.MaxDirty)
	p.Begin(famUncleanable)
	for _, tp := range s.Uncleanable {
		p.Int(1, tp.Topic, strconv.Itoa(int(tp.Partition)))
	}
}

// writeTransactions writes all about transactions but how the coordinator's partitions are, which
// it returns.
func (c *collector) writeTransactions(
	ctx context.Context, p *metrics.Page,
) coordinator.Survey {
	b := c.b
	s := b.transactions.Stats(ctx)
	p.Begin(famTransactions)
	for state, n := range s.ByState {
		p.Int(int64(n), txn.State(state).String())
	}
	open := s.ByState[txn.Ongoing] + s.ByState[txn.PrepareCommit] + s.ByState[txn.PrepareAbort]
	p.One(famOpenTransactions, int64(open))
	p.Begin(famOldest)
	age := time.Duration(0)
	if s.OldestStartMS > 0 {
		age = max(b.opts.Now().Sub(time.UnixMilli(s.OldestStartMS)), 0)
	}
	p.Seconds(age)
	p.Begin(famEnded)
	p.Int(b.transactions.Counters().Committed.Load(), "committed")
	p.Int(b.transactions.Counters().Aborted.Load(), "aborted")
	return s.Survey
}
