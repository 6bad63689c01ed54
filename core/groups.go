package core

import (
	"iter"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
)

// openGroups makes the group coordinator.
func (b *Broker) openGroups() error {
	s := settings{b.controller.Image()}
	var err error
	b.groups, err = group.New(group.Options{
		Log:                    &internalLog{b.replicas, group.TopicName},
		Logger:                 b.levels.logger(loggerGroup),
		Now:                    b.opts.Now,
		Settings:               s.groups(),
		Topics:                 func() group.Topics { return groupTopics{b.controller.Image()} },
		RetentionCheckInterval: s.millis("offsets.retention.check.interval.ms"),
		CommitTimeout:          s.millis("offsets.commit.timeout.ms"),
	})
	return err
}

// orNever turns a time of 0 into the negative one that group.Settings take for none.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// groups returns the settings of groups.
func (s settings) groups() group.Settings {
	g := group.Settings{
		MinSessionTimeout:      s.millis("group.min.session.timeout.ms"),
		MaxSessionTimeout:      s.millis("group.max.session.timeout.ms"),
		InitialRebalanceDelay:  orNever(s.millis("group.initial.rebalance.delay.ms")),
		MaxSize:                s.number("group.max.size"),
		MaxGroups:              s.number("millstream.groups.max"),
		OffsetMetadataMaxBytes: s.number("offset.metadata.max.bytes"),
		OffsetsRetention:       time.Duration(s.number("offsets.retention.minutes")) * time.Minute,
		Consumer: group.ConsumerSettings{
			SessionTimeout:       s.millis("group.consumer.session.timeout.ms"),
			HeartbeatInterval:    s.millis("group.consumer.heartbeat.interval.ms"),
			AssignmentInterval:   orNever(s.millis("group.consumer.assignment.interval.ms")),
			RegexRefreshInterval: s.millis("group.consumer.regex.refresh.interval.ms"),
			MaxSize:              s.number("group.consumer.max.size"),
			MigrationPolicy: strings.ToLower(
				s.image.BrokerConfigValue("group.consumer.migration.policy")),
		},
	}
	g.Groups = make(map[string]group.GroupSettings)
	for _, id := range s.image.ConfiguredResources(metadata.ResourceGroup) {
		g.Groups[id] = s.group(id)
	}
	assignors := s.image.BrokerConfigValue("group.consumer.assignors")
	for name := range strings.SplitSeq(assignors, ",") {
		if name = strings.TrimSpace(name); name != "" {
			g.Consumer.Assignors = append(g.Consumer.Assignors, name)
		}
	}
	return g
}

// group returns the dynamic configs of one group, within the bounds of the broker, which may have
// changed since they were set.
func (s settings) group(id string) group.GroupSettings {
	own := func(name string) time.Duration {
		ms := s.image.GroupConfigInt(id, "consumer."+name, 0)
		least := s.image.BrokerConfigInt("group.consumer.min."+name, 0)
		most := s.image.BrokerConfigInt("group.consumer.max."+name, math.MaxInt32)
		return time.Duration(min(max(ms, least), most)) * time.Millisecond
	}
	return group.GroupSettings{
		SessionTimeout:     own("session.timeout.ms"),
		HeartbeatInterval:  own("heartbeat.interval.ms"),
		AssignmentInterval: orNever(own("assignment.interval.ms")),
	}
}

// groupTopics shows an image to the group coordinator.
type groupTopics struct{ image *metadata.Image }

var _ group.Topics = groupTopics{}

func (t groupTopics) Version() int64 { return t.image.Version() }

func (t groupTopics) ByName(name string) (group.Topic, bool) {
	topic, ok := t.image.Topic(name)
	return t.topic(topic, ok)
}

func (t groupTopics) ByID(id uuid.UUID) (group.Topic, bool) {
	topic, ok := t.image.TopicByID(id)
	return t.topic(topic, ok)
}

func (t groupTopics) topic(topic *metadata.Topic, ok bool) (group.Topic, bool) {
	if !ok {
		return group.Topic{}, false
	}
	return group.Topic{
		Name: topic.Name, ID: topic.ID, Partitions: int32(len(topic.Partitions)),
		Racks: func(p int32) []string {
			var racks []string
			for _, replica := range topic.Partitions[p].Replicas {
				if b, ok := t.image.Broker(replica); ok && b.Rack != "" {
					racks = append(racks, b.Rack)
				}
			}
			return racks
		},
	}, true
}

func (t groupTopics) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range t.image.Topics() {
			if !yield(topic.Name) {
				return
			}
		}
	}
}
