package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	. "millstream.test/compat/adapter"
)

func (c *client) adm() *kadm.Client {
	if c.admin == nil {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap))
		if err != nil {
			panic(err)
		}
		c.admin = kadm.NewClient(cl)
	}
	return c.admin
}

func (c *client) createTopic(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	configs := map[string]*string{}
	for name, value := range r.Configs {
		configs[name] = &value
	}
	_, err := c.adm().CreateTopic(ctx, r.Count, 1, configs, r.Topic)
	return nil, err
}

func (c *client) deleteTopic(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	_, err := c.adm().DeleteTopic(ctx, r.Topic)
	return nil, err
}

func (c *client) listTopics(Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	topics, err := c.adm().ListTopics(ctx)
	return Any{"topics": topics.Names()}, err
}

func (c *client) describeTopic(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	topics, err := c.adm().ListTopics(ctx, r.Topic)
	return Any{"partitions": len(topics[r.Topic].Partitions)}, err
}

func (c *client) addPartitions(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answers, err := c.adm().UpdatePartitions(ctx, int(r.Count), r.Topic)
	return nil, errors.Join(err, answers.Error())
}

func (c *client) getConfig(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answers, err := c.adm().DescribeTopicConfigs(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	resource, err := answers.On(r.Topic, nil)
	for _, config := range resource.Configs {
		if config.Key == r.Name {
			return Any{"value": config.MaybeValue()}, err
		}
	}
	return nil, errors.Join(err, errors.New("no such config"))
}

func (c *client) setConfig(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: r.Name, Value: &r.Value}}
	answers, err := c.adm().AlterTopicConfigs(ctx, alter, r.Topic)
	if err != nil {
		return nil, err
	}
	answer, err := answers.On(r.Topic, nil)
	return nil, errors.Join(err, answer.Err)
}

func (c *client) listGroups(Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	groups, err := c.adm().ListGroups(ctx)
	return Any{"groups": groups.Groups()}, err
}

func (c *client) describeGroup(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	groups, err := c.adm().DescribeGroups(ctx, r.Group)
	g := groups[r.Group]
	return Any{"state": g.State, "members": len(g.Members)}, errors.Join(err, g.Err)
}

func (c *client) deleteGroup(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	_, err := c.adm().DeleteGroup(ctx, r.Group)
	return nil, err
}

func (c *client) setGroupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	offsets := kadm.Offsets{}
	for p, o := range r.Offsets {
		offsets.AddOffset(r.Topic, p, o, -1)
	}
	return nil, c.adm().CommitAllOffsets(ctx, r.Group, offsets)
}

func (c *client) groupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	answers, err := c.adm().FetchOffsets(ctx, r.Group)
	offsets := map[int32]int64{}
	for _, p := range r.Partitions {
		if o, ok := answers.Lookup(r.Topic, p); ok {
			offsets[p] = o.At
			err = errors.Join(err, o.Err)
		}
	}
	return Any{"offsets": offsets}, err
}

func (c *client) deleteGroupOffsets(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	topics := kadm.TopicsSet{}
	topics.Add(r.Topic, r.Partitions...)
	answers, err := c.adm().DeleteOffsets(ctx, r.Group, topics)
	return nil, errors.Join(err, answers.Error())
}

func (c *client) deleteRecords(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(r.Topic, r.Partition, r.Before, -1)
	answers, err := c.adm().DeleteRecords(ctx, offsets)
	return nil, errors.Join(err, answers.Error())
}

func (c *client) offsetForTime(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	listed, err := c.adm().ListOffsetsAfterMilli(ctx, r.Time, r.Topic)
	found, _ := listed.Lookup(r.Topic, r.Partition)
	return Any{"offset": found.Offset}, errors.Join(err, found.Err)
}

func (c *client) bounds(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	begins, err := c.adm().ListStartOffsets(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := c.adm().ListEndOffsets(ctx, r.Topic)
	begin, _ := begins.Lookup(r.Topic, r.Partition)
	end, _ := ends.Lookup(r.Topic, r.Partition)
	return Any{"begin": begin.Offset, "end": end.Offset}, errors.Join(err, begin.Err, end.Err)
}
