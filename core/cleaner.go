package core

import (
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/storage/compact"
)

// openCleaner makes the compaction of the data directory's logs.
func (b *Broker) openCleaner(image *metadata.Image) error {
	var err error
	b.cleaner, err = compact.New(compact.Options{Dir: b.dataDir, Logger: b.log, Now: b.opts.Now,
		Settings: cleanerSettings(image)})
	return err
}

// cleanerSettings takes what concerns compaction from the settings in force of this node.
func cleanerSettings(image *metadata.Image) compact.Settings {
	double := func(name string) float64 {
		n, _ := strconv.ParseFloat(image.BrokerConfigValue(name), 64) // validated when set
		return n
	}
	return compact.Settings{
		Disabled:          image.BrokerConfigValue("log.cleaner.enable") == "false",
		Threads:           int(image.BrokerConfigInt("log.cleaner.threads", 0)),
		DedupeBufferBytes: image.BrokerConfigInt("log.cleaner.dedupe.buffer.size", 0),
		LoadFactor:        double("log.cleaner.io.buffer.load.factor"),
		IOBufferBytes:     int(image.BrokerConfigInt("log.cleaner.io.buffer.size", 0)),
		MaxBytesPerSecond: double("log.cleaner.io.max.bytes.per.second"),
		Backoff: time.Millisecond *
			time.Duration(image.BrokerConfigInt("log.cleaner.backoff.ms", -1)),
	}
}
