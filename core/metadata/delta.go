package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// Delta is an image in the making: a base and the records applied since. The base is not changed;
// what a record touches is copied first, once.
type Delta struct {
	next  Image
	fresh map[uuid.UUID]bool // topics already copied
	own   struct {           // parts of next that are not shared with the base any more
		brokers, topics, configs, resources, features, acls, scram, quotas bool
	}
}

// NewDelta returns a delta without changes.
func NewDelta(base *Image) *Delta {
	return &Delta{next: *base, fresh: make(map[uuid.UUID]bool)}
}

// Image ends the delta and returns the new image at that version.
func (d *Delta) Image(version int64) *Image {
	d.next.version = version
	return &d.next
}

// Peek returns the image so far, valid until the next Apply.
func (d *Delta) Peek() *Image { return &d.next }

// Apply applies one record. ErrBadRecord says that it does not fit; the delta is then unchanged.
func (d *Delta) Apply(r Record) error {
	switch r := r.(type) {
	case *ClusterRecord:
		d.next.clusterID = r.ClusterID
	case *BrokerRecord:
		d.applyBroker(r.Broker)
	case *TopicRecord:
		return d.applyTopic(r)
	case *TopicRemovedRecord:
		return d.applyTopicRemoved(r)
	case *PartitionRecord:
		return d.applyPartition(r)
	case *TopicConfigRecord:
		t, err := d.topic(r.TopicID)
		if err != nil {
			return err
		}
		setOrDelete(t.Configs, r.Key, r.Value)
	case *BrokerConfigRecord:
		d.applyBrokerConfig(r)
	case *ResourceConfigRecord:
		d.applyResourceConfig(r)
	case *ClientQuotaRecord:
		return d.applyClientQuota(r)
	case *FeatureRecord:
		d.applyFeature(r)
	case *BrokerRemovedRecord:
		return d.applyBrokerRemoved(r)
	case *ProducerIDsRecord:
		if r.Next < d.next.nextProducer {
			return fmt.Errorf("producer ids go back from %d to %d: %w",
				d.next.nextProducer, r.Next, ErrBadRecord)
		}
		d.next.nextProducer = r.Next
	default:
		known, err := d.applyAccess(r)
		if !known {
			return fmt.Errorf("%T: %w", r, ErrUnknownRecord)
		}
		return err
	}
	return nil
}

func (d *Delta) applyBroker(b Broker) {
	if !d.own.brokers {
		d.next.brokers = slices.Clone(d.next.brokers)
		d.own.brokers = true
	}
	at, found := slices.BinarySearchFunc(d.next.brokers, b.ID, func(e Broker, id int32) int {
		return cmp.Compare(e.ID, id)
	})
	if found {
		d.next.brokers[at] = b
	} else {
		d.next.brokers = slices.Insert(d.next.brokers, at, b)
	}
}

// ownTopics makes the topic lists this delta's own.
func (d *Delta) ownTopics() {
	if !d.own.topics {
		d.next.topics = slices.Clone(d.next.topics)
		d.next.topicsByID = slices.Clone(d.next.topicsByID)
		d.own.topics = true
	}
}

// topic returns this delta's own copy of a topic.
func (d *Delta) topic(id uuid.UUID) (*Topic, error) {
	at, found := slices.BinarySearchFunc(d.next.topicsByID, id, compareID)
	if !found {
		return nil, fmt.Errorf("no topic has id %s: %w", id, ErrBadRecord)
	}
	t := d.next.topicsByID[at]
	if d.fresh[id] {
		return t, nil
	}
	d.ownTopics()
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	if c.Configs = maps.Clone(t.Configs); c.Configs == nil {
		c.Configs = make(map[string]string)
	}
	d.next.topicsByID[at] = &c
	at, _ = slices.BinarySearchFunc(d.next.topics, t.Name, compareName)
	d.next.topics[at] = &c
	d.fresh[id] = true
	return &c, nil
}

func (d *Delta) applyTopic(r *TopicRecord) error {
	byName, found := slices.BinarySearchFunc(d.next.topics, r.Name, compareName)
	if found {
		return fmt.Errorf("topic %s is there already: %w", r.Name, ErrBadRecord)
	}
	byID, found := slices.BinarySearchFunc(d.next.topicsByID, r.ID, compareID)
	if found {
		return fmt.Errorf("topic id %s is there already: %w", r.ID, ErrBadRecord)
	}
	d.ownTopics()
	t := &Topic{Name: r.Name, ID: r.ID, Internal: r.Internal, Configs: make(map[string]string)}
	d.next.topics = slices.Insert(d.next.topics, byName, t)
	d.next.topicsByID = slices.Insert(d.next.topicsByID, byID, t)
	d.fresh[r.ID] = true
	return nil
}

func (d *Delta) applyTopicRemoved(r *TopicRemovedRecord) error {
	byID, found := slices.BinarySearchFunc(d.next.topicsByID, r.ID, compareID)
	if !found {
		return fmt.Errorf("no topic has id %s: %w", r.ID, ErrBadRecord)
	}
	name := d.next.topicsByID[byID].Name
	byName, _ := slices.BinarySearchFunc(d.next.topics, name, compareName)
	d.ownTopics()
	d.next.topicsByID = slices.Delete(d.next.topicsByID, byID, byID+1)
	d.next.topics = slices.Delete(d.next.topics, byName, byName+1)
	delete(d.fresh, r.ID)
	return nil
}

func (d *Delta) applyPartition(r *PartitionRecord) error {
	t, err := d.topic(r.TopicID)
	if err != nil {
		return err
	}
	p := r.Partition
	for _, id := range p.ISR {
		if !slices.Contains(p.Replicas, id) {
			return fmt.Errorf("%s-%d: %d is in sync but no replica: %w",
				t.Name, r.Index, id, ErrBadRecord)
		}
	}
	if p.Leader != NoLeader && !slices.Contains(p.ISR, p.Leader) {
		return fmt.Errorf("%s-%d: leader %d is not in sync: %w",
			t.Name, r.Index, p.Leader, ErrBadRecord)
	}
	switch n := int32(len(t.Partitions)); {
	case r.Index >= 0 && r.Index < n:
		t.Partitions[r.Index] = p
	case r.Index == n:
		t.Partitions = append(t.Partitions, p)
	default:
		return fmt.Errorf("%s has %d partitions, %d is not the next: %w",
			t.Name, n, r.Index, ErrBadRecord)
	}
	return nil
}

func (d *Delta) applyBrokerConfig(r *BrokerConfigRecord) {
	if !d.own.configs {
		d.next.brokerConfigs, d.own.configs = cloneConfigs(d.next.brokerConfigs), true
	}
	setConfig(d.next.brokerConfigs, r.BrokerID, r.Key, r.Value)
}

func (d *Delta) applyResourceConfig(r *ResourceConfigRecord) {
	if !d.own.resources {
		d.next.resourceConfigs, d.own.resources = cloneConfigs(d.next.resourceConfigs), true
	}
	setConfig(d.next.resourceConfigs, Resource{r.Kind, r.Name}, r.Key, r.Value)
}

// cloneConfigs copies the configs of all owners, which may be brokers or other resources.
func cloneConfigs[O comparable](all map[O]map[string]string) map[O]map[string]string {
	own := make(map[O]map[string]string, len(all))
	for owner, configs := range all {
		own[owner] = maps.Clone(configs)
	}
	return own
}

// setConfig sets or deletes one config of an owner. An owner without configs has no entry.
func setConfig[O comparable](all map[O]map[string]string, owner O, key string, value *string) {
	configs := all[owner]
	if configs == nil {
		configs = make(map[string]string)
		all[owner] = configs
	}
	if setOrDelete(configs, key, value); len(configs) == 0 {
		delete(all, owner)
	}
}

func (d *Delta) applyFeature(r *FeatureRecord) {
	if !d.own.features {
		d.next.features = maps.Clone(d.next.features)
		if d.next.features == nil {
			d.next.features = make(map[string]FeatureLevel)
		}
		d.own.features = true
	}
	// Level 0 is kept, not deleted: without it the feature would fall back to its default.
	d.next.features[r.Name] = r.Level
	d.next.featuresEpoch = max(d.next.featuresEpoch, r.Epoch)
}

func (d *Delta) applyBrokerRemoved(r *BrokerRemovedRecord) error {
	at, found := slices.BinarySearchFunc(d.next.brokers, r.ID, func(e Broker, id int32) int {
		return cmp.Compare(e.ID, id)
	})
	if !found {
		return fmt.Errorf("no broker has id %d: %w", r.ID, ErrBadRecord)
	}
	if !d.own.brokers {
		d.next.brokers = slices.Clone(d.next.brokers)
		d.own.brokers = true
	}
	d.next.brokers = slices.Delete(d.next.brokers, at, at+1)
	return nil
}

func setOrDelete(m map[string]string, key string, value *string) {
	if value == nil {
		delete(m, key)
	} else {
		m[key] = *value
	}
}
