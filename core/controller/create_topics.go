package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
)

// maxNewPartitions bounds the partitions of one command, as Kafka does.
const maxNewPartitions = 10_000

// CreateTopic is a topic to make.
type CreateTopic struct {
	Name              string
	Partitions        int32 // -1 = the default: num.partitions, or that of an internal topic
	ReplicationFactor int16 // -1 = the default: default.replication.factor, else min(3, brokers)
	// Assignment gives the replicas of each partition by its number, the leader first. Partitions
	// and ReplicationFactor must then be -1.
	Assignment map[int32][]int32
	Configs    map[string]string
}

// TopicResult is what became of one topic.
type TopicResult struct {
	Name              string
	ID                uuid.UUID
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string // the topic's own
	Err               error             // nil, or an *Error
}

type topicReply struct {
	Name              string            `json:"name"`
	ID                uuid.UUID         `json:"id"`
	Partitions        int32             `json:"partitions,omitempty"`
	ReplicationFactor int16             `json:"replicationFactor,omitempty"`
	Configs           map[string]string `json:"configs,omitempty"`
	Error             *storedError      `json:"error,omitempty"`
}

func topicResults(replies []topicReply) []TopicResult {
	results := make([]TopicResult, len(replies))
	for i, r := range replies {
		results[i] = TopicResult{
			Name: r.Name, ID: r.ID, Partitions: r.Partitions,
			ReplicationFactor: r.ReplicationFactor, Configs: r.Configs, Err: r.Error.err(),
		}
	}
	return results
}

// CreateTopics makes topics, each on its own: results are in the order of the request, and one
// refused topic does not stop the others. With validateOnly nothing is made. An internal topic gets
// the settings it needs where the request names none.
func (c *Controller) CreateTopics(
	ctx context.Context, topics []CreateTopic, validateOnly bool,
) ([]TopicResult, error) {
	cmd := &createTopics{topics: topics, validateOnly: validateOnly}
	for range topics {
		id, err := c.newTopicID()
		if err != nil {
			return nil, err
		}
		cmd.ids = append(cmd.ids, id)
	}
	var replies []topicReply
	if err := c.do(ctx, cmd, &replies); err != nil {
		return nil, err
	}
	return topicResults(replies), nil
}

// newTopicID draws an id. Kafka reserves 0 and 1, and its tools stumble over a text form that
// begins with a dash.
func (c *Controller) newTopicID() (uuid.UUID, error) {
	for {
		id, err := uuid.NewRandomFromReader(c.opts.Rand)
		if err != nil {
			return id, fmt.Errorf("draw a topic id: %w", err)
		}
		if clusterIDText(id)[0] != '-' {
			return id, nil
		}
	}
}

type createTopics struct {
	topics       []CreateTopic
	ids          []uuid.UUID // for each topic
	validateOnly bool
}

func (c *createTopics) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]topicReply, len(c.topics))
	asked := make(map[string]int)
	for _, t := range c.topics {
		asked[t.Name]++
	}
	room, total := int32(maxNewPartitions), partitionCount(img)
	delta := metadata.NewDelta(img) // so that a topic sees those before it
	for i, t := range c.topics {
		replies[i].Name = t.Name
		if asked[t.Name] > 1 {
			replies[i].Error = storeError(refuse(ErrInvalidRequest,
				"topic %q is in the request more than once", t.Name))
			continue
		}
		made, refused := planTopic(delta.Peek(), t, c.ids[i], room)
		if refused == nil {
			n := made.reply.Partitions
			refused = tooMany(img, t.Name, n, total+int64(n))
		}
		if refused != nil {
			replies[i].Error = storeError(refused)
			continue
		}
		next, err := applied(delta, made.records)
		if err != nil {
			replies[i].Error = storeError(refuse(ErrInvalidRequest, "%v", err))
			continue
		}
		delta = next
		room -= made.reply.Partitions
		total += int64(made.reply.Partitions)
		replies[i] = made.reply
		records = append(records, made.records...)
	}
	if c.validateOnly {
		return nil, replies
	}
	return records, replies
}

type plannedTopic struct {
	records []metadata.Record
	reply   topicReply
}

// planTopic checks one topic and returns the records that make it.
func planTopic(
	img *metadata.Image, t CreateTopic, id uuid.UUID, room int32,
) (plannedTopic, *Error) {
	if refused := checkNewName(img, t.Name); refused != nil {
		return plannedTopic{}, refused
	}
	configs := internalConfigs(img, t.Name)
	for key, value := range t.Configs {
		if def, ok := metadata.LookupTopicConfig(key); ok {
			value = def.Normalize(value)
		}
		configs[key] = value
	}
	if err := metadata.ValidateTopicConfigs(configs); err != nil {
		return plannedTopic{}, configError(err)
	}
	replicas, refused := planReplicas(img, t, id, room)
	if refused != nil {
		return plannedTopic{}, refused
	}
	internal := metadata.IsInternalTopic(t.Name)
	p := plannedTopic{reply: topicReply{
		Name: t.Name, ID: id, Partitions: int32(len(replicas)),
		ReplicationFactor: int16(len(replicas[0])), Configs: configs,
	}}
	p.records = append(p.records, &metadata.TopicRecord{Name: t.Name, ID: id, Internal: internal})
	p.records = append(p.records, partitionRecords(id, 0, replicas)...)
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		p.records = append(p.records,
			&metadata.TopicConfigRecord{TopicID: id, Key: key, Value: &value})
	}
	return p, nil
}

func partitionRecords(id uuid.UUID, first int32, replicas [][]int32) []metadata.Record {
	records := make([]metadata.Record, len(replicas))
	for i, r := range replicas {
		records[i] = &metadata.PartitionRecord{TopicID: id, Index: first + int32(i),
			Partition: metadata.Partition{Leader: r[0], Replicas: r, ISR: slices.Clone(r)}}
	}
	return records
}

func checkNewName(img *metadata.Image, name string) *Error {
	if err := metadata.ValidateTopicName(name); err != nil {
		return refuse(ErrInvalidTopicName, "%v", err)
	}
	if name == raft.LogPartition.Topic {
		return refuse(ErrInvalidRequest, "%q is kept for the metadata log", name)
	}
	if _, exists := img.Topic(name); exists {
		return refuse(ErrTopicExists, "Topic '%s' already exists.", name)
	}
	if other, collides := img.CollidingTopic(name); collides {
		// Kafka's metric names have '_' in the place of both '.' and '_'.
		return refuse(ErrInvalidTopicName, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}

// planReplicas returns the replicas of each partition of a new topic, at least one of each.
func planReplicas(
	img *metadata.Image, t CreateTopic, id uuid.UUID, room int32,
) ([][]int32, *Error) {
	if t.Assignment != nil {
		if t.Partitions != -1 || t.ReplicationFactor != -1 {
			return nil, refuse(ErrInvalidRequest, "topic %q has an assignment, so the number of "+
				"partitions and the replication factor must both be -1", t.Name)
		}
		return assignedReplicas(img, t.Assignment, room)
	}
	partitions := t.Partitions
	if partitions == -1 {
		partitions = defaultPartitions(img, t.Name)
	}
	if refused := checkPartitions(partitions, room); refused != nil {
		return nil, refused
	}
	factor := t.ReplicationFactor
	if factor == -1 {
		factor = defaultReplication(img, t.Name)
	}
	if refused := checkReplication(factor, img); refused != nil {
		return nil, refused
	}
	return placeReplicas(img, id, 0, int(partitions), int(factor)), nil
}

func checkPartitions(n, room int32) *Error {
	switch {
	case n < 1:
		return refuse(ErrInvalidPartitions,
			"Number of partitions was set to an invalid non-positive value.")
	case n > room:
		return refuse(ErrPolicyViolation, "%d partitions are too many, a request can make %d at most", n,
			maxNewPartitions)
	}
	return nil
}

// tooFewBrokers says that there are not enough for so many replicas.
func tooFewBrokers(factor int16, img *metadata.Image) *Error {
	return refuse(ErrInvalidReplicationFactor, "Unable to replicate the partition %d time(s): The "+
		"target replication factor of %d cannot be reached because only %d broker(s) are registered "+
		"or some brokers have all their log directories cordoned.", factor, factor, len(img.Brokers()))
}

func checkReplication(factor int16, img *metadata.Image) *Error {
	switch brokers := len(img.Brokers()); {
	case factor < 1:
		return refuse(ErrInvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	case int(factor) > brokers:
		return tooFewBrokers(factor, img)
	}
	return nil
}

// assignedReplicas checks an assignment a client gave.
func assignedReplicas(
	img *metadata.Image, assignment map[int32][]int32, room int32,
) ([][]int32, *Error) {
	if len(assignment) == 0 {
		return nil, refuse(ErrInvalidAssignment, "the assignment has no partitions")
	}
	partitions := int32(min(len(assignment), maxNewPartitions+1))
	if refused := checkPartitions(partitions, room); refused != nil {
		return nil, refused
	}
	list := make([][]int32, len(assignment))
	for i := range list {
		replicas, ok := assignment[int32(i)]
		if !ok {
			return nil, refuse(ErrInvalidAssignment,
				"partitions must be numbered from 0 without gaps, %d is missing", i)
		}
		if refused := checkReplicas(img, replicas); refused != nil {
			return nil, refused
		}
		if len(replicas) != len(assignment[0]) {
			return nil, refuse(ErrInvalidAssignment,
				"partition %d has %d replicas, partition 0 has %d",
				i, len(replicas), len(assignment[0]))
		}
		list[i] = slices.Clone(replicas)
	}
	return list, nil
}

func checkReplicas(img *metadata.Image, replicas []int32) *Error {
	if len(replicas) == 0 {
		return refuse(ErrInvalidAssignment, "a partition has no replicas")
	}
	for i, id := range replicas {
		if _, ok := img.Broker(id); !ok {
			return refuse(ErrInvalidAssignment, "there is no broker %d", id)
		}
		if slices.Contains(replicas[:i], id) {
			return refuse(ErrInvalidAssignment, "broker %d is named twice", id)
		}
	}
	return nil
}

// placeReplicas spreads partitions over brokers in turn, beginning at a broker that depends on the
// topic's id, so that the first partitions of many topics do not all have one leader. There must be
// at least factor brokers.
func placeReplicas(img *metadata.Image, id uuid.UUID, first, n, factor int) [][]int32 {
	brokers := img.Brokers()
	start := int(id[15])
	list := make([][]int32, n)
	for i := range list {
		for j := range factor {
			list[i] = append(list[i], brokers[(start+first+i+j)%len(brokers)].ID)
		}
	}
	return list
}

func defaultPartitions(img *metadata.Image, name string) int32 {
	switch name {
	case metadata.ConsumerOffsets:
		return int32(img.BrokerConfigInt("offsets.topic.num.partitions", 50))
	case metadata.TransactionState:
		return int32(img.BrokerConfigInt("transaction.state.log.num.partitions", 50))
	}
	return int32(img.BrokerConfigInt("num.partitions", 1))
}

// defaultReplication returns the replication factor of a topic that names none. Where a setting
// says one, it is taken even if there are too few brokers, so that nobody gets less safety than
// they wrote down.
func defaultReplication(img *metadata.Image, name string) int16 {
	setting := "default.replication.factor"
	switch name {
	case metadata.ConsumerOffsets:
		setting = "offsets.topic.replication.factor"
	case metadata.TransactionState:
		setting = "transaction.state.log.replication.factor"
	}
	return int16(img.BrokerConfigInt(setting, 1))
}

// internalConfigs returns what an internal topic needs to work.
func internalConfigs(img *metadata.Image, name string) map[string]string {
	if !metadata.IsInternalTopic(name) {
		return make(map[string]string)
	}
	setting := "transaction.state.log.segment.bytes"
	if name == metadata.ConsumerOffsets {
		setting = "offsets.topic.segment.bytes"
	}
	configs := map[string]string{
		"cleanup.policy":   "compact",
		"compression.type": "producer",
		"segment.bytes":    strconv.FormatInt(img.BrokerConfigInt(setting, 100<<20), 10),
	}
	if name == metadata.TransactionState {
		configs["compression.type"] = "uncompressed"
		// At most its replicas: more would count every partition as under its minimum for good.
		configs["min.insync.replicas"] = strconv.FormatInt(min(
			img.BrokerConfigInt("transaction.state.log.min.isr", 2),
			int64(defaultReplication(img, name))), 10)
		configs["unclean.leader.election.enable"] = "false"
	}
	return configs
}

// configError turns an error of metadata's validation into one of this package.
func configError(err error) *Error {
	if errors.Is(err, metadata.ErrReadOnlyConfig) {
		return refuse(ErrInvalidRequest, "%v", err)
	}
	return refuse(ErrInvalidConfig, "%v", err)
}
