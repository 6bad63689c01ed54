package metadata

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/record"
)

// KafkaMetadata is what Apache Kafka's metadata log (__cluster_metadata, KRaft) says of topics,
// their partitions and configs. A value there is
//
//	uvarint frame version, 1
//	uvarint kind of record
//	uvarint version of that kind
//	...     the record in Kafka's flexible encoding
//
// of which the kinds in kafkaKinds count here.
type KafkaMetadata struct {
	topics   map[uuid.UUID]*kafkaTopic
	configs  map[kafkaResource]map[string]string
	producer int64           // first producer id not given out
	quotas   *Delta          // has nothing but client quotas
	pending  []pendingRecord // of the open transaction of the controller
	open     bool            // a transaction is open
}

// KafkaTopic is a topic of Kafka's metadata.
type KafkaTopic struct {
	Name        string
	ID          uuid.UUID
	LeaderEpoch []int32 // of each partition
}

type kafkaTopic struct {
	name       string
	partitions map[int32]int32 // leader epochs by partition
}

type kafkaResource struct {
	kind ResourceKind
	name string
}

type pendingRecord struct {
	kind, version uint64
	value         []byte
}

// Kinds of Kafka's metadata records that are read.
const (
	kafkaTopicRecord     = 2
	kafkaPartitionRecord = 3
	kafkaConfigRecord    = 4
	kafkaPartitionChange = 5
	kafkaRemoveTopic     = 9
	kafkaClientQuota     = 14
	kafkaProducerIDs     = 15
	kafkaBeginTxn        = 23
	kafkaEndTxn          = 24
	kafkaAbortTxn        = 25
)

// kafkaKinds has the newest version of each that is known.
var kafkaKinds = map[uint64]uint64{kafkaTopicRecord: 0, kafkaPartitionRecord: 2,
	kafkaConfigRecord: 0, kafkaPartitionChange: 2, kafkaRemoveTopic: 0, kafkaProducerIDs: 0,
	kafkaClientQuota: 0,
	kafkaBeginTxn:    0, kafkaEndTxn: 0, kafkaAbortTxn: 0}

// NewKafkaMetadata returns the metadata of a log without records.
func NewKafkaMetadata() *KafkaMetadata {
	return &KafkaMetadata{topics: make(map[uuid.UUID]*kafkaTopic),
		configs: make(map[kafkaResource]map[string]string),
		quotas:  NewDelta(NewImage(0, nil))}
}

// Add reads one batch of the log or of a snapshot. ErrBadRecord for bytes that are no record,
// ErrUnknownRecord for a later version of one that counts.
func (m *KafkaMetadata) Add(b record.Batch) error {
	if b.IsControl() {
		return nil
	}
	return b.Each(1<<24, func(r *record.Record) error {
		if err := m.add(r.Value); err != nil {
			return fmt.Errorf("record at offset %d: %w", r.Offset, err)
		}
		return nil
	})
}

func (m *KafkaMetadata) add(value []byte) error {
	r := kafkaReader{b: value}
	frame, kind, version := r.uvarint(), r.uvarint(), r.uvarint()
	newest, counts := kafkaKinds[kind]
	switch {
	case r.bad || frame != 1:
		return fmt.Errorf("frame of %d bytes: %w", len(value), ErrBadRecord)
	case !counts:
		return nil
	case version > newest:
		return fmt.Errorf("kind %d version %d, this build knows %d: %w", kind, version, newest,
			ErrUnknownRecord)
	}
	switch kind {
	case kafkaBeginTxn:
		m.open, m.pending = true, nil
		return nil
	case kafkaAbortTxn:
		m.open, m.pending = false, nil
		return nil
	case kafkaEndTxn:
		list := m.pending
		m.open, m.pending = false, nil
		for _, p := range list {
			if err := m.apply(p); err != nil {
				return err
			}
		}
		return nil
	}
	p := pendingRecord{kind, version, r.b}
	if m.open {
		p.value = slices.Clone(p.value)
		m.pending = append(m.pending, p)
		return nil
	}
	return m.apply(p)
}

func (m *KafkaMetadata) apply(p pendingRecord) error {
	r := &kafkaReader{b: p.value}
	switch p.kind {
	case kafkaTopicRecord:
		name, id := r.string(), r.uuid()
		m.topics[id] = &kafkaTopic{name, make(map[int32]int32)}
	case kafkaRemoveTopic:
		id := r.uuid()
		if t := m.topics[id]; t != nil {
			delete(m.configs, kafkaResource{ResourceTopic, t.name})
		}
		delete(m.topics, id)
	case kafkaPartitionRecord:
		index, id := r.int32(), r.uuid()
		for range 4 { // replicas, in sync, removing, adding
			r.skip(4 * r.length())
		}
		r.int32() // leader
		epoch := r.int32()
		if t := m.topics[id]; t != nil && !r.bad {
			t.partitions[index] = epoch
		}
	case kafkaPartitionChange:
		index, id := r.int32(), r.uuid()
		// Each change that names a leader, also the same one, begins an epoch.
		if t := m.topics[id]; t != nil && r.tagged(1) && !r.bad {
			t.partitions[index]++
		}
	case kafkaConfigRecord:
		m.config(r)
	case kafkaClientQuota:
		return m.quota(r)
	case kafkaProducerIDs:
		r.skip(4 + 8) // broker and its epoch
		m.producer = r.int64()
	}
	if r.bad {
		return fmt.Errorf("kind %d of %d bytes: %w", p.kind, len(p.value), ErrBadRecord)
	}
	return nil
}

func (m *KafkaMetadata) config(r *kafkaReader) {
	at := kafkaResource{kind: ResourceKind(int8(r.skip(1)[0]))}
	at.name = r.string()
	key := r.string()
	value, null := r.nullableString()
	switch {
	case r.bad:
	case null:
		delete(m.configs[at], key)
	default:
		if m.configs[at] == nil {
			m.configs[at] = make(map[string]string)
		}
		m.configs[at][key] = value
	}
}

// quota reads one change of a client quota.
func (m *KafkaMetadata) quota(r *kafkaReader) error {
	change := &ClientQuotaRecord{}
	for n := r.length(); n > 0 && !r.bad; n-- {
		part := QuotaPartRecord{Type: r.string()}
		if name, null := r.nullableString(); !null {
			part.Name = &name
		}
		r.tagged(0)
		change.Entity = append(change.Entity, part)
	}
	change.Key = r.string()
	value := math.Float64frombits(uint64(r.int64()))
	if remove := r.skip(1)[0] != 0; !remove {
		change.Value = &value
	}
	if r.bad {
		return fmt.Errorf("client quota: %w", ErrBadRecord)
	}
	return m.quotas.Apply(change)
}

// quotaRecords is ConfigRecords for client quotas.
func (m *KafkaMetadata) quotaRecords() (records []Record, refused []error) {
	for _, r := range m.quotas.Peek().quotaRecords() {
		q := r.(*ClientQuotaRecord)
		entity, err := q.entity()
		if err == nil {
			err = entity.Validate()
		}
		if err == nil {
			err = entity.ValidateQuota(q.Key, *q.Value)
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("quota %s=%v of %s: %w", q.Key, *q.Value, entity, err))
			continue
		}
		records = append(records, q)
	}
	return records, refused
}

// Topics returns the topics by name. ErrBadRecord if partitions of one are missing.
func (m *KafkaMetadata) Topics() ([]KafkaTopic, error) {
	var list []KafkaTopic
	for id, t := range m.topics {
		k := KafkaTopic{Name: t.name, ID: id}
		for i := range int32(len(t.partitions)) {
			epoch, ok := t.partitions[i]
			if !ok {
				return nil, fmt.Errorf("topic %q has no partition %d: %w", t.name, i, ErrBadRecord)
			}
			k.LeaderEpoch = append(k.LeaderEpoch, epoch)
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b KafkaTopic) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// NextProducerID is the first producer id that Kafka has not given out.
func (m *KafkaMetadata) NextProducerID() int64 { return m.producer }

// ConfigRecords returns the settings of topics, groups, metrics subscriptions and of broker node,
// and the client quotas, as records, and an error for each that this build does not take.
func (m *KafkaMetadata) ConfigRecords(node int32) (records []Record, refused []error) {
	records, refused = m.quotaRecords()
	ids := make(map[string]uuid.UUID)
	for id, t := range m.topics {
		ids[t.name] = id
	}
	for _, at := range slices.SortedFunc(maps.Keys(m.configs), compareResources) {
		for _, key := range slices.Sorted(maps.Keys(m.configs[at])) {
			value := m.configs[at][key]
			r, err := configRecord(at, key, value, node, ids)
			if err != nil {
				refused = append(refused, fmt.Errorf("%s=%s of %q: %w", key, value, at.name, err))
			} else if r != nil {
				records = append(records, r)
			}
		}
	}
	return records, refused
}

func compareResources(a, b kafkaResource) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	return cmp.Compare(a.name, b.name)
}

// errOtherNode says whose setting it is.
var errOtherNode = errors.New("of another broker")

// configRecord makes one; nil and no error if the topic is gone.
func configRecord(at kafkaResource, key, value string, node int32, ids map[string]uuid.UUID) (
	Record, error,
) {
	switch at.kind {
	case ResourceTopic:
		id, ok := ids[at.name]
		if !ok {
			return nil, nil
		}
		return &TopicConfigRecord{TopicID: id, Key: key, Value: &value},
			ValidateTopicConfig(key, value)
	case ResourceBroker:
		broker := ClusterDefault
		if at.name != "" {
			if at.name != fmt.Sprint(node) {
				return nil, errOtherNode
			}
			broker = node
		}
		return &BrokerConfigRecord{BrokerID: broker, Key: key, Value: &value},
			ValidateBrokerConfig(key, value)
	case ResourceGroup, ResourceClientMetrics:
		image := NewImage(node, nil)
		return &ResourceConfigRecord{Kind: at.kind, Name: at.name, Key: key, Value: &value},
			image.ValidateResourceConfigs(at.kind, map[string]string{key: value})
	}
	return nil, fmt.Errorf("resource type %d: %w", at.kind, ErrUnknownRecord)
}

// kafkaReader takes values of Kafka's flexible encoding from the front; bad stays true from the
// first one that is not there.
type kafkaReader struct {
	b   []byte
	bad bool
}

// skip returns the next n bytes, zeros if they are not there.
func (r *kafkaReader) skip(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, 16)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *kafkaReader) int32() int32 { return int32(binary.BigEndian.Uint32(r.skip(4))) }

func (r *kafkaReader) int64() int64 { return int64(binary.BigEndian.Uint64(r.skip(8))) }

func (r *kafkaReader) uuid() uuid.UUID { return uuid.UUID(r.skip(16)) }

func (r *kafkaReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length reads the length of a compact array; null counts as empty.
func (r *kafkaReader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.b))+1 {
		r.bad = true
		return 0
	}
	return max(int(n)-1, 0)
}

func (r *kafkaReader) string() string { return string(r.skip(r.length())) }

func (r *kafkaReader) nullableString() (s string, null bool) {
	null = len(r.b) > 0 && r.b[0] == 0
	return r.string(), null
}

// tagged says whether a tagged field is there, and reads all of them.
func (r *kafkaReader) tagged(want uint64) (found bool) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		size := r.uvarint()
		if size > uint64(len(r.b)) {
			r.bad = true
			return false
		}
		r.skip(int(size))
		found = found || tag == want
	}
	return found
}
