package core

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// collector exposes the partitions of a broker to Prometheus.
type collector struct {
	b                              *Broker
	size, start, end, topics, raft *prometheus.Desc
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
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.size, c.start, c.end, c.topics, c.raft} {
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
}
