package main

import (
	"errors"

	"github.com/IBM/sarama"

	. "millstream.test/compat/adapter"
)

func (c *client) adm() sarama.ClusterAdmin {
	if c.admin == nil {
		admin, err := sarama.NewClusterAdmin(c.brokers, config())
		if err != nil {
			panic(err)
		}
		c.admin = admin
	}
	return c.admin
}

func (c *client) cl() sarama.Client {
	if c.plain == nil {
		plain, err := sarama.NewClient(c.brokers, config())
		if err != nil {
			panic(err)
		}
		c.plain = plain
	}
	return c.plain
}

func (c *client) createTopic(r Request) (Any, error) {
	configs := map[string]*string{}
	for name, value := range r.Configs {
		configs[name] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: r.Count, ReplicationFactor: 1, ConfigEntries: configs}
	return nil, c.adm().CreateTopic(r.Topic, detail, false)
}

func (c *client) deleteTopic(r Request) (Any, error) { return nil, c.adm().DeleteTopic(r.Topic) }

func (c *client) listTopics(Request) (Any, error) {
	topics, err := c.adm().ListTopics()
	names := []string{}
	for name := range topics {
		names = append(names, name)
	}
	return Any{"topics": names}, err
}

func (c *client) describeTopic(r Request) (Any, error) {
	described, err := c.adm().DescribeTopics([]string{r.Topic})
	if err != nil {
		return nil, err
	}
	return Any{"partitions": len(described[0].Partitions)}, nil
}

func (c *client) addPartitions(r Request) (Any, error) {
	return nil, c.adm().CreatePartitions(r.Topic, r.Count, nil, false)
}

func (c *client) getConfig(r Request) (Any, error) {
	entries, err := c.adm().DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: r.Topic, ConfigNames: []string{r.Name},
	})
	for _, e := range entries {
		if e.Name == r.Name {
			return Any{"value": e.Value}, err
		}
	}
	return nil, errors.Join(err, errors.New("no such config"))
}

func (c *client) setConfig(r Request) (Any, error) {
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &r.Value}
	return nil, c.adm().IncrementalAlterConfig(sarama.TopicResource, r.Topic,
		map[string]sarama.IncrementalAlterConfigsEntry{r.Name: entry}, false)
}

func (c *client) listGroups(Request) (Any, error) {
	groups, err := c.adm().ListConsumerGroups()
	names := []string{}
	for name := range groups {
		names = append(names, name)
	}
	return Any{"groups": names}, err
}

func (c *client) describeGroup(r Request) (Any, error) {
	groups, err := c.adm().DescribeConsumerGroups([]string{r.Group})
	if err != nil {
		return nil, err
	}
	return Any{"state": groups[0].State, "members": len(groups[0].Members)}, nil
}

func (c *client) deleteGroup(r Request) (Any, error) {
	return nil, c.adm().DeleteConsumerGroup(r.Group)
}

func (c *client) setGroupOffsets(r Request) (Any, error) {
	offsets := map[int32]sarama.OffsetAndMetadata{}
	for p, o := range r.Offsets {
		offsets[p] = sarama.OffsetAndMetadata{Offset: o, LeaderEpoch: -1}
	}
	answer, err := c.adm().AlterConsumerGroupOffsets(r.Group,
		map[string]map[int32]sarama.OffsetAndMetadata{r.Topic: offsets}, nil)
	if err != nil {
		return nil, err
	}
	for _, code := range answer.Errors[r.Topic] {
		if code != sarama.ErrNoError {
			return nil, code
		}
	}
	return nil, nil
}

func (c *client) groupOffsets(r Request) (Any, error) {
	answer, err := c.adm().ListConsumerGroupOffsets(r.Group, map[string][]int32{r.Topic: r.Partitions})
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, p := range r.Partitions {
		if b := answer.GetBlock(r.Topic, p); b != nil {
			offsets[p] = b.Offset
		}
	}
	return Any{"offsets": offsets}, nil
}

func (c *client) deleteGroupOffsets(r Request) (Any, error) {
	for _, p := range r.Partitions {
		if err := c.adm().DeleteConsumerGroupOffset(r.Group, r.Topic, p); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (c *client) deleteRecords(r Request) (Any, error) {
	return nil, c.adm().DeleteRecords(r.Topic, map[int32]int64{r.Partition: r.Before})
}

func (c *client) offsetForTime(r Request) (Any, error) {
	offset, err := c.cl().GetOffset(r.Topic, r.Partition, r.Time)
	return Any{"offset": offset}, err
}

func (c *client) bounds(r Request) (Any, error) {
	begin, err := c.cl().GetOffset(r.Topic, r.Partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	end, err := c.cl().GetOffset(r.Topic, r.Partition, sarama.OffsetNewest)
	return Any{"begin": begin, "end": end}, err
}
