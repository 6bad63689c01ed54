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
	image := b.controller.Image()
	var err error
	b.groups, err = group.New(group.Options{
		Log:                    &internalLog{b.replicas, group.TopicName},
		Logger:                 b.levels.logger(loggerGroup),
		Now:                    b.opts.Now,
		Settings:               groupSettings(image),
		Topics:                 func() group.Topics { return groupTopics{b.controller.Image()} },
		RetentionCheckInterval: millis(image, "offsets.retention.check.interval.ms"),
		CommitTimeout:          millis(image, "offsets.commit.timeout.ms"),
	})
	return err
}

// millis is a setting in milliseconds.
func millis(image *metadata.Image, name string) time.Duration {
	return time.Duration(image.BrokerConfigInt(name, 0)) * time.Millisecond
}

// orNever turns a time of 0 into the negative one that group.Settings take for none.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// groupSettings are the settings of groups that an image has.
func groupSettings(image *metadata.Image) group.Settings {
	number := func(name string) int { return int(image.BrokerConfigInt(name, 0)) }
	s := group.Settings{
		MinSessionTimeout:      millis(image, "group.min.session.timeout.ms"),
		MaxSessionTimeout:      millis(image, "group.max.session.timeout.ms"),
		InitialRebalanceDelay:  orNever(millis(image, "group.initial.rebalance.delay.ms")),
		MaxSize:                number("group.max.size"),
		OffsetMetadataMaxBytes: number("offset.metadata.max.bytes"),
		OffsetsRetention:       time.Duration(number("offsets.retention.minutes")) * time.Minute,
		Consumer: group.ConsumerSettings{
			SessionTimeout:       millis(image, "group.consumer.session.timeout.ms"),
			HeartbeatInterval:    millis(image, "group.consumer.heartbeat.interval.ms"),
			AssignmentInterval:   assignmentInterval(image),
			RegexRefreshInterval: millis(image, "group.consumer.regex.refresh.interval.ms"),
			MaxSize:              number("group.consumer.max.size"),
			MigrationPolicy: strings.ToLower(
				image.BrokerConfigValue("group.consumer.migration.policy")),
		},
	}
	s.Groups = make(map[string]group.GroupSettings)
	for _, id := range image.ConfiguredResources(metadata.ResourceGroup) {
		s.Groups[id] = oneGroup(image, id)
	}
	for _, name := range strings.Split(image.BrokerConfigValue("group.consumer.assignors"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			s.Consumer.Assignors = append(s.Consumer.Assignors, name)
		}
	}
	return s
}

// oneGroup are the dynamic configs of a group, within the bounds of the broker, which may have
// changed since they were set.
func oneGroup(image *metadata.Image, id string) group.GroupSettings {
	own := func(name string) time.Duration {
		ms := image.GroupConfigInt(id, "consumer."+name, 0)
		least := image.BrokerConfigInt("group.consumer.min."+name, 0)
		most := image.BrokerConfigInt("group.consumer.max."+name, math.MaxInt32)
		return time.Duration(min(max(ms, least), most)) * time.Millisecond
	}
	return group.GroupSettings{
		SessionTimeout:     own("session.timeout.ms"),
		HeartbeatInterval:  own("heartbeat.interval.ms"),
		AssignmentInterval: orNever(own("assignment.interval.ms")),
	}
}

// assignmentInterval tells none from not set.
func assignmentInterval(image *metadata.Image) time.Duration {
	ms := image.BrokerConfigInt("group.consumer.assignment.interval.ms", 1000)
	return orNever(time.Duration(ms) * time.Millisecond)
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
