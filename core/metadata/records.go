package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// Record is one change of the cluster's metadata. Records are what the controller's log and
// snapshots hold.
type Record interface {
	// kind is the name and version a record is kept under.
	kind() (name string, version int)
}

// ClusterRecord names the cluster.
type ClusterRecord struct {
	ClusterID string `json:"clusterId"`
}

// BrokerRecord registers a broker or renews its registration.
type BrokerRecord struct{ Broker }

// TopicRecord makes a topic without partitions.
type TopicRecord struct {
	Name     string    `json:"name"`
	ID       uuid.UUID `json:"id"`
	Internal bool      `json:"internal,omitempty"`
}

// TopicRemovedRecord removes a topic, its partitions and its settings.
type TopicRemovedRecord struct {
	ID uuid.UUID `json:"id"`
}

// PartitionRecord sets a partition, an existing one or the next one of its topic.
type PartitionRecord struct {
	TopicID uuid.UUID `json:"topicId"`
	Index   int32     `json:"index"`
	Partition
}

// TopicConfigRecord sets one setting of a topic, or removes it.
type TopicConfigRecord struct {
	TopicID uuid.UUID `json:"topicId"`
	Key     string    `json:"key"`
	Value   *string   `json:"value"` // nil removes
}

// BrokerConfigRecord sets one dynamic setting of a broker, or of all (ClusterDefault), or removes
// it.
type BrokerConfigRecord struct {
	BrokerID int32   `json:"brokerId"`
	Key      string  `json:"key"`
	Value    *string `json:"value"` // nil removes
}

// ResourceConfigRecord sets one setting of a group or a metrics subscription, or removes it.
type ResourceConfigRecord struct {
	Kind  ResourceKind `json:"resource"`
	Name  string       `json:"name"`
	Key   string       `json:"key"`
	Value *string      `json:"value"` // nil removes
}

// FeatureRecord finalizes a feature at a level, 0 takes it back.
type FeatureRecord struct {
	Name  string       `json:"name"`
	Level FeatureLevel `json:"level"`
	// Epoch is the index of the record's entry, by which readers see that features changed.
	Epoch int64 `json:"epoch"`
}

// BrokerRemovedRecord removes a broker.
type BrokerRemovedRecord struct {
	ID int32 `json:"id"`
}

// ProducerIDsRecord moves the first producer id not yet given out.
type ProducerIDsRecord struct {
	Next int64 `json:"next"`
}

func (*ClusterRecord) kind() (string, int)        { return "cluster", 0 }
func (*BrokerRecord) kind() (string, int)         { return "broker", 0 }
func (*TopicRecord) kind() (string, int)          { return "topic", 0 }
func (*TopicRemovedRecord) kind() (string, int)   { return "topicRemoved", 0 }
func (*PartitionRecord) kind() (string, int)      { return "partition", 0 }
func (*TopicConfigRecord) kind() (string, int)    { return "topicConfig", 0 }
func (*BrokerConfigRecord) kind() (string, int)   { return "brokerConfig", 0 }
func (*ProducerIDsRecord) kind() (string, int)    { return "producerIds", 0 }
func (*ResourceConfigRecord) kind() (string, int) { return "resourceConfig", 0 }
func (*FeatureRecord) kind() (string, int)        { return "feature", 0 }
func (*BrokerRemovedRecord) kind() (string, int)  { return "brokerRemoved", 0 }

// newRecord makes an empty record of a kind.
var newRecord = map[string]func() Record{
	"cluster":        func() Record { return &ClusterRecord{} },
	"broker":         func() Record { return &BrokerRecord{} },
	"topic":          func() Record { return &TopicRecord{} },
	"topicRemoved":   func() Record { return &TopicRemovedRecord{} },
	"partition":      func() Record { return &PartitionRecord{} },
	"topicConfig":    func() Record { return &TopicConfigRecord{} },
	"brokerConfig":   func() Record { return &BrokerConfigRecord{} },
	"producerIds":    func() Record { return &ProducerIDsRecord{} },
	"resourceConfig": func() Record { return &ResourceConfigRecord{} },
	"feature":        func() Record { return &FeatureRecord{} },
	"brokerRemoved":  func() Record { return &BrokerRemovedRecord{} },
	"acl":            func() Record { return &ACLRecord{} },
	"aclRemoved":     func() Record { return &ACLRemovedRecord{} },
	"scram":          func() Record { return &ScramRecord{} },
	"scramRemoved":   func() Record { return &ScramRemovedRecord{} },
	"clientQuota":    func() Record { return &ClientQuotaRecord{} },
}

// envelope is a record's stored form: JSON, so that a snapshot can be read by eye.
type envelope struct {
	Kind    string          `json:"kind"`
	Version int             `json:"v"`
	Data    json.RawMessage `json:"data"`
}

// EncodeRecord returns the stored form of a record.
func EncodeRecord(r Record) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode metadata record: %w", err)
	}
	name, version := r.kind()
	return json.Marshal(envelope{Kind: name, Version: version, Data: data})
}

// DecodeRecord reads the stored form. ErrUnknownRecord for a kind or version of a later build,
// ErrBadRecord for bytes that are not a record.
func DecodeRecord(b []byte) (Record, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode metadata record: %w: %w", ErrBadRecord, err)
	}
	make, ok := newRecord[e.Kind]
	if !ok {
		return nil, fmt.Errorf("kind %q: %w", e.Kind, ErrUnknownRecord)
	}
	r := make()
	if _, version := r.kind(); e.Version != version {
		return nil, fmt.Errorf("kind %q version %d, this build knows %d: %w",
			e.Kind, e.Version, version, ErrUnknownRecord)
	}
	if err := json.Unmarshal(e.Data, r); err != nil {
		return nil, fmt.Errorf("decode metadata record %q: %w: %w", e.Kind, ErrBadRecord, err)
	}
	return r, nil
}

// Records returns the records that make this image from an empty one, in an order that depends on
// the content only.
func (i *Image) Records() []Record {
	var list []Record
	if i.clusterID != "" {
		list = append(list, &ClusterRecord{i.clusterID})
	}
	for _, b := range i.brokers {
		list = append(list, &BrokerRecord{b})
	}
	for _, id := range slices.Sorted(maps.Keys(i.brokerConfigs)) {
		configs := i.brokerConfigs[id]
		for _, key := range slices.Sorted(maps.Keys(configs)) {
			value := configs[key]
			list = append(list, &BrokerConfigRecord{id, key, &value})
		}
	}
	for _, t := range i.topics {
		list = append(list, &TopicRecord{t.Name, t.ID, t.Internal})
		for index, p := range t.Partitions {
			list = append(list, &PartitionRecord{t.ID, int32(index), p})
		}
		for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
			value := t.Configs[key]
			list = append(list, &TopicConfigRecord{t.ID, key, &value})
		}
	}
	for _, kind := range []ResourceKind{ResourceClientMetrics, ResourceGroup} {
		for _, name := range i.ConfiguredResources(kind) {
			configs := i.ResourceConfig(kind, name)
			for _, key := range slices.Sorted(maps.Keys(configs)) {
				value := configs[key]
				list = append(list, &ResourceConfigRecord{kind, name, key, &value})
			}
		}
	}
	list = append(list, i.quotaRecords()...)
	for _, name := range slices.Sorted(maps.Keys(i.features)) {
		list = append(list, &FeatureRecord{name, i.features[name], i.featuresEpoch})
	}
	if i.nextProducer != 0 {
		list = append(list, &ProducerIDsRecord{i.nextProducer})
	}
	return append(list, i.accessRecords()...)
}
