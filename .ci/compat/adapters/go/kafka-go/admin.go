package main

import (
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	. "millstream.test/compat/adapter"
)

func firstOf(errs map[string]error, err error) error {
	for _, e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

func (c *client) createTopic(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	topic := kafka.TopicConfig{Topic: r.Topic, NumPartitions: int(r.Count), ReplicationFactor: 1}
	for name, value := range r.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := c.admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(answer.Errors, nil)
}

func (c *client) deleteTopic(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.Topic}})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(answer.Errors, nil)
}

// metadata goes to the broker, past the transport's cache of 6 seconds.
func (c *client) metadata(topics []string) (*kafka.MetadataResponse, error) {
	ctx, cancel := Timeout()
	defer cancel()
	fresh := &kafka.Client{Addr: c.addr, Timeout: 20 * time.Second, Transport: &kafka.Transport{}}
	return fresh.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}

func (c *client) listTopics(Request) (Any, error) {
	answer, err := c.metadata(nil)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, t := range answer.Topics {
		names = append(names, t.Name)
	}
	return Any{"topics": names}, nil
}

func (c *client) describeTopic(r Request) (Any, error) {
	answer, err := c.metadata([]string{r.Topic})
	if err != nil {
		return nil, err
	}
	return Any{"partitions": len(answer.Topics[0].Partitions)}, nil
}

func (c *client) addPartitions(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: r.Topic, Count: r.Count}},
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(answer.Errors, nil)
}

func (c *client) getConfig(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic, ConfigNames: []string{r.Name}},
		},
	})
	if err != nil {
		return nil, err
	}
	if answer.Resources[0].Error != nil {
		return nil, answer.Resources[0].Error
	}
	return Any{"value": answer.Resources[0].ConfigEntries[0].ConfigValue}, nil
}

func (c *client) setConfig(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	set := kafka.IncrementalAlterConfigsRequestConfig{
		Name: r.Name, Value: r.Value, ConfigOperation: kafka.ConfigOperationSet,
	}
	answer, err := c.admin.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{set},
		}},
	})
	if err != nil {
		return nil, err
	}
	return nil, answer.Resources[0].Error
}

func (c *client) listGroups(Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, g := range answer.Groups {
		names = append(names, g.GroupID)
	}
	return Any{"groups": names}, answer.Error
}

func (c *client) describeGroup(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{r.Group}})
	if err != nil {
		return nil, err
	}
	g := answer.Groups[0]
	return Any{"state": g.GroupState, "members": len(g.Members)}, g.Error
}

func (c *client) deleteGroup(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{r.Group}})
	if err != nil {
		return nil, err
	}
	return nil, answer.Errors[r.Group]
}

func (c *client) setGroupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	var offsets []kafka.OffsetCommit
	for p, o := range r.Offsets {
		offsets = append(offsets, kafka.OffsetCommit{Partition: int(p), Offset: o})
	}
	answer, err := c.admin.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: r.Group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{r.Topic: offsets},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range answer.Topics[r.Topic] {
		err = errors.Join(err, p.Error)
	}
	return nil, err
}

func ints(partitions []int32) []int {
	list := make([]int, len(partitions))
	for i, p := range partitions {
		list[i] = int(p)
	}
	return list
}

func (c *client) groupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: r.Group, Topics: map[string][]int{r.Topic: ints(r.Partitions)},
	})
	if err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for _, p := range answer.Topics[r.Topic] {
		offsets[p.Partition] = p.CommittedOffset
	}
	return Any{"offsets": offsets}, answer.Error
}

func (c *client) deleteGroupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{
		GroupID: r.Group, Topics: map[string][]int{r.Topic: ints(r.Partitions)},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range answer.Topics[r.Topic] {
		err = errors.Join(err, p.Error)
	}
	return nil, errors.Join(err, answer.Error)
}

func (c *client) list(r Request, requests ...kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answer, err := c.admin.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{r.Topic: requests},
	})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	found := answer.Topics[r.Topic][0]
	return found, found.Error
}

func (c *client) offsetForTime(r Request) (Any, error) {
	found, err := c.list(r, kafka.TimeOffsetOf(int(r.Partition), time.UnixMilli(r.Time)))
	for offset := range found.Offsets {
		return Any{"offset": offset}, err
	}
	return Any{"offset": -1}, err
}

func (c *client) bounds(r Request) (Any, error) {
	found, err := c.list(r, kafka.FirstOffsetOf(int(r.Partition)), kafka.LastOffsetOf(int(r.Partition)))
	return Any{"begin": found.FirstOffset, "end": found.LastOffset}, err
}
