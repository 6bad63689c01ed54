package controller

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
)

// TopicRef names a topic by Name, or by ID if Name is empty.
type TopicRef struct {
	Name string
	ID   uuid.UUID
}

func (r TopicRef) find(img *metadata.Image) (*metadata.Topic, *Error) {
	switch {
	case r.Name != "" && r.ID != uuid.Nil:
		return nil, refuse(ErrInvalidRequest, "topic %q is named by an id too", r.Name)
	case r.Name != "":
		if t, ok := img.Topic(r.Name); ok {
			return t, nil
		}
		return nil, refuse(ErrUnknownTopic, "This server does not host this topic-partition.")
	}
	if t, ok := img.TopicByID(r.ID); ok {
		return t, nil
	}
	return nil, refuse(ErrUnknownTopicID, "there is no topic with the id %s", r.ID)
}

// DeleteTopics removes topics with their data, each on its own. Results are in the order of the
// request.
func (c *Controller) DeleteTopics(ctx context.Context, refs []TopicRef) ([]TopicResult, error) {
	var replies []topicReply
	if err := c.do(ctx, &deleteTopics{refs}, &replies); err != nil {
		return nil, err
	}
	return topicResults(replies), nil
}

type deleteTopics struct{ refs []TopicRef }

func (c *deleteTopics) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]topicReply, len(c.refs))
	enabled := img.BrokerConfigValue("delete.topic.enable") != "false"
	named := make(map[TopicRef]int)
	whole := func(ref TopicRef) TopicRef { // the same for a name and an id of one topic
		if t, refused := ref.find(img); refused == nil {
			return TopicRef{t.Name, t.ID}
		}
		return ref
	}
	for _, ref := range c.refs {
		named[whole(ref)]++
	}
	for i, ref := range c.refs {
		replies[i] = topicReply{Name: ref.Name, ID: ref.ID}
		t, refused := ref.find(img)
		switch {
		case named[whole(ref)] > 1:
			refused = refuse(ErrInvalidRequest, "topic %q is in the request more than once", ref.Name)
		case refused != nil:
		case t.Internal:
			refused = refuse(ErrInvalidTopicName, "topic %q is the cluster's own", t.Name)
		case !enabled:
			refused = refuse(ErrTopicDeletionDisabled, "delete.topic.enable is false")
		default:
			replies[i].Name, replies[i].ID = t.Name, t.ID
			records = append(records, &metadata.TopicRemovedRecord{ID: t.ID})
		}
		replies[i].Error = storeError(refused)
	}
	return records, replies
}

// NewPartitions is a topic to get more partitions.
type NewPartitions struct {
	Topic string
	Count int32 // in all, old ones included
	// Assignment gives the replicas of each new partition, nil = places are chosen.
	Assignment [][]int32
}

// CreatePartitions adds partitions, to each topic on its own. Results are in the order of the
// request. With validateOnly nothing is added.
func (c *Controller) CreatePartitions(
	ctx context.Context, topics []NewPartitions, validateOnly bool,
) ([]TopicResult, error) {
	var replies []topicReply
	if err := c.do(ctx, &createPartitions{topics, validateOnly}, &replies); err != nil {
		return nil, err
	}
	return topicResults(replies), nil
}

type createPartitions struct {
	topics       []NewPartitions
	validateOnly bool
}

func (c *createPartitions) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]topicReply, len(c.topics))
	asked := make(map[string]int)
	for _, t := range c.topics {
		asked[t.Topic]++
	}
	room, total := int32(maxNewPartitions), partitionCount(img)
	for i, t := range c.topics {
		replies[i].Name = t.Topic
		if asked[t.Topic] > 1 {
			replies[i].Error = storeError(refuse(ErrInvalidRequest,
				"topic %q is in the request more than once", t.Topic))
			continue
		}
		made, refused := planPartitions(img, t, room)
		if refused == nil {
			refused = tooMany(img, t.Topic, t.Count, total+int64(len(made)))
		}
		if refused != nil {
			made = nil
		}
		total += int64(len(made))
		replies[i].Error = storeError(refused)
		room -= int32(len(made))
		records = append(records, made...)
	}
	if c.validateOnly {
		return nil, replies
	}
	return records, replies
}

func planPartitions(
	img *metadata.Image, n NewPartitions, room int32,
) ([]metadata.Record, *Error) {
	t, refused := TopicRef{Name: n.Topic}.find(img)
	if n.Topic == "" {
		refused = refuse(ErrUnknownTopic, "the topic's name is empty")
	}
	if refused != nil {
		return nil, refused
	}
	old := int32(len(t.Partitions))
	switch {
	case t.Internal:
		return nil, refuse(ErrInvalidPartitions,
			"topic %q is the cluster's own; its number of partitions says where its keys are", t.Name)
	case n.Count < old:
		return nil, refuse(ErrInvalidPartitions,
			"The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, old, n.Count)
	case n.Count == old:
		return nil, refuse(ErrInvalidPartitions, "Topic already has %d partition(s).", old)
	}
	if refused := checkPartitions(n.Count-old, room); refused != nil {
		return nil, refused
	}
	factor := 1
	if old > 0 {
		factor = len(t.Partitions[0].Replicas)
	}
	if n.Assignment == nil {
		if factor > len(img.Brokers()) {
			return nil, tooFewBrokers(int16(factor), img)
		}
		replicas := placeReplicas(img, t.ID, int(old), int(n.Count-old), factor)
		return partitionRecords(t.ID, old, replicas), nil
	}
	if len(n.Assignment) != int(n.Count-old) {
		return nil, refuse(ErrInvalidAssignment, "%d partitions are new, %d are assigned",
			n.Count-old, len(n.Assignment))
	}
	var replicas [][]int32
	for i, r := range n.Assignment {
		if refused := checkReplicas(img, r); refused != nil {
			return nil, refused
		}
		if len(r) != factor {
			return nil, refuse(ErrInvalidAssignment, "partition %d has %d replicas, others have %d",
				old+int32(i), len(r), factor)
		}
		replicas = append(replicas, slices.Clone(r))
	}
	return partitionRecords(t.ID, old, replicas), nil
}
