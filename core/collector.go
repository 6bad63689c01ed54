package core

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// collector exposes the partitions of a broker to Prometheus.
type collector struct {
	b                              *Broker
	size, start, end, topics, raft *prometheus.Desc
	// Of compaction, see compact.Stats.
	cleanedBytes, keptBytes, cleanings, lastRun, dirtiest, uncleanable *prometheus.Desc
}

func newCollector(b *Broker) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millstream_"+name, help, labels, nil)
	}
	return &collector{
		b:      b,
		size:   desc("log_bytes", "Size of a partition's log.", "topic", "partition"),
		start:  desc("log_start_offset", "First offset of a log.", "topic", "partition"),
		end:    desc("log_end_offset", "Offset of the next record.", "topic", "partition"),
		topics: desc("topics", "Number of topics."),
		raft:   desc("metadata_version", "Raft index of the metadata in force."),
		cleanedBytes: desc("cleaner_replaced_bytes_total",
			"Bytes of segments that compaction has replaced."),
		keptBytes: desc("cleaner_kept_bytes_total", "Bytes of what has replaced them."),
		cleanings: desc("cleaner_runs_total", "Compactions of a log."),
		lastRun: desc("cleaner_last_run_seconds",
			"When compaction last looked at the logs, seconds since 1970."),
		dirtiest: desc("cleaner_max_dirty_ratio", "Dirty part of the dirtiest log, 0 to 1."),
		uncleanable: desc("cleaner_uncleanable", "1 for a partition that compaction skips.",
			"topic", "partition"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.size, c.start, c.end, c.topics, c.raft,
		c.cleanedBytes, c.keptBytes, c.cleanings, c.lastRun, c.dirtiest, c.uncleanable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for _, l := range c.b.dataDir.Logs() {
		tp := l.TopicPartition()
		partition := strconv.Itoa(int(tp.Partition))
		gauge(c.size, l.Size(), tp.Topic, partition)
		gauge(c.start, l.StartOffset(), tp.Topic, partition)
		gauge(c.end, l.EndOffset(), tp.Topic, partition)
	}
	image := c.b.controller.Image()
	gauge(c.topics, int64(image.TopicCount()))
	gauge(c.raft, image.Version())
	c.collectCleaner(ch)
}

// collectCleaner exposes what compaction did.
func (c *collector) collectCleaner(ch chan<- prometheus.Metric) {
	s := c.b.cleaner.Stats()
	counter := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	counter(c.cleanedBytes, s.BytesBefore)
	counter(c.keptBytes, s.BytesAfter)
	counter(c.cleanings, s.Runs)
	ch <- prometheus.MustNewConstMetric(c.lastRun, prometheus.GaugeValue, float64(s.LastRunMS)/1000)
	ch <- prometheus.MustNewConstMetric(c.dirtiest, prometheus.GaugeValue, s.MaxDirty)
	for _, tp := range s.Uncleanable {
		ch <- prometheus.MustNewConstMetric(c.uncleanable, prometheus.GaugeValue, 1, tp.Topic,
			strconv.Itoa(int(tp.Partition)))
	}
}
