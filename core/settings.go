package core

import (
	"math"
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/quota"
	"github.com/millstream-io/millstream/core/server"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/compact"
	"github.com/millstream-io/millstream/core/txn"
)

// settings reads broker settings off an image, one method for each part that has some.
type settings struct{ image *metadata.Image }

// millis returns a setting in milliseconds.
func (s settings) millis(name string) time.Duration {
	return time.Duration(s.image.BrokerConfigInt(name, 0)) * time.Millisecond
}

func (s settings) number(name string) int { return int(s.image.BrokerConfigInt(name, 0)) }

func (s settings) fraction(name string) float64 {
	n, _ := strconv.ParseFloat(s.image.BrokerConfigValue(name), 64) // validated when set
	return n
}

// dir returns the settings of a data directory that can change while it is open.
func (s settings) dir() storage.DirSettings {
	return storage.DirSettings{
		ProducerIDExpiration: s.millis("producer.id.expiration.ms"),
		PartitionProducers:   s.number("millstream.partition.producer.ids.max"),
		Producers:            s.number("millstream.producer.ids.max"),
		ScrubBytesPerSecond:  s.image.BrokerConfigInt("millstream.log.scrub.bytes.per.second", 0),
		ScrubInterval:        s.millis("millstream.log.scrub.interval.ms"),
	}
}

// transactions returns the settings of transactions, which are read at the start.
func (s settings) transactions() txn.Options {
	return txn.Options{
		MaxIDs:        s.number("millstream.transactional.ids.max"),
		MaxTimeout:    s.millis("transaction.max.timeout.ms"),
		AbortInterval: s.millis("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		Expiration:    s.millis("transactional.id.expiration.ms"),
		ExpirationInterval: s.millis(
			"transaction.remove.expired.transaction.cleanup.interval.ms"),
	}
}

// cleaner returns the settings of compaction.
func (s settings) cleaner() compact.Settings {
	return compact.Settings{
		Disabled:          s.image.BrokerConfigValue("log.cleaner.enable") == "false",
		Threads:           s.number("log.cleaner.threads"),
		DedupeBufferBytes: s.image.BrokerConfigInt("log.cleaner.dedupe.buffer.size", 0),
		LoadFactor:        s.fraction("log.cleaner.io.buffer.load.factor"),
		IOBufferBytes:     s.number("log.cleaner.io.buffer.size"),
		MaxBytesPerSecond: s.fraction("log.cleaner.io.max.bytes.per.second"),
		Backoff:           s.millis("log.cleaner.backoff.ms"),
	}
}

// leastMemoryPart is the least that a part of the memory of requests gets, in bytes.
const leastMemoryPart = 1 << 20

// set gives v a default.
func set(v *int64, value int64) {
	if *v == 0 {
		*v = value
	}
}

// limits fills what the options leave open with the settings that a server reads at its start.
func (s settings) limits(l server.Limits) server.Limits {
	if l.RequestBytes == 0 {
		l.RequestBytes = s.number("socket.request.max.bytes")
	}
	if l.IdleTimeout == 0 {
		// Kafka takes a negative time for none.
		if l.IdleTimeout = s.millis("connections.max.idle.ms"); l.IdleTimeout < 0 {
			l.IdleTimeout = math.MaxInt64
		}
	}
	// Three parts, see the text of the setting.
	if n := s.image.BrokerConfigInt("queued.max.request.bytes", -1); n > 0 {
		set(&l.MemoryBytes, max(n/3, leastMemoryPart))
		set(&l.AnswerBytes, max(n/3, leastMemoryPart))
	}
	if l.FetchBytes == 0 {
		l.FetchBytes = s.number("fetch.max.bytes")
	}
	if l.FetchSessions == 0 {
		if l.FetchSessions = s.number("max.incremental.fetch.session.cache.slots"); l.FetchSessions == 0 {
			l.FetchSessions = -1
		}
	}
	return l
}

// quotas says how the use of client quotas is measured.
func (s settings) quotas() quota.Options {
	seconds := func(name string) time.Duration { return time.Duration(s.number(name)) * time.Second }
	return quota.Options{
		Samples: s.number("quota.window.num"), Window: seconds("quota.window.size.seconds"),
		MutationSamples: s.number("controller.quota.window.num"),
		MutationWindow:  seconds("controller.quota.window.size.seconds"),
		MaxClients:      s.number("millstream.quota.clients.max"),
	}
}

// connections returns the limits of connections that can change while the server runs.
func (s settings) connections() server.ConnectionLimits {
	limit := func(name string) int {
		switch n := s.number(name); n {
		case math.MaxInt32: // the default
			return 0
		case 0:
			return -1
		default:
			return n
		}
	}
	// Checked before it was stored.
	byIP, _ := metadata.ParsePerIP(s.image.BrokerConfigValue("max.connections.per.ip.overrides"))
	return server.ConnectionLimits{
		Total: limit("max.connections"), PerIP: limit("max.connections.per.ip"), ByIP: byIP,
		PerSecond: max(limit("max.connection.creation.rate"), 0),
	}
}

// applySettings lets the parts have the newest settings that can change while they run. What else
// there is was read at the start, or is read off the image where it is needed.
func (b *Broker) applySettings() {
	b.configuring.Lock()
	defer b.configuring.Unlock()
	s := settings{b.latest.Load()}
	b.dataDir.Configure(s.dir())
	b.cleaner.Configure(s.cleaner())
	if err := b.groups.Configure(s.groups()); err != nil {
		b.log.Error("keep the old settings of groups", "error", err)
	}
	if srv := b.configurable.Load(); srv != nil {
		srv.SetConnectionLimits(s.connections())
		srv.SetQuotas(s.image.ClientQuotas())
		srv.SetSlowRequests(max(s.millis("slow.request.log.threshold.ms"), 0))
	}
}
