package server_test

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The chapters of TestErrorsAreKafkas about topics, settings and the cluster.

// createRequest asks for topics that are alike.
func createRequest(partitions int32, replicas int16, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 5000
	for _, name := range names {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func (e *errorWire) topicErrors() {
	topic := e.topic("t", 1)
	collide := e.topic("a.b", 1)
	for _, version := range []int16{2, 4, 5, 7} {
		ask := func(label string, req *kmsg.CreateTopicsRequest) {
			e.send(label, version, req)
		}
		ask("exists", createRequest(1, 1, topic))
		ask("no partitions", createRequest(0, 1, e.name("x")))
		ask("-2 partitions", createRequest(-2, 1, e.name("x")))
		ask("replication factor 0", createRequest(1, 0, e.name("x")))
		ask("replication factor 3 on one node", createRequest(1, 3, e.name("x")))
		ask("empty name", createRequest(1, 1, ""))
		ask("name ..", createRequest(1, 1, ".."))
		ask("name with a space", createRequest(1, 1, "in valid"))
		ask("name that collides in metrics", createRequest(1, 1, e.name("a_b")))
		ask("twice in one request", createRequest(1, 1, e.name("tw"), e.name("tw")))
		ask("no topics", createRequest(1, 1))
		validate := createRequest(1, 1, e.name("validate"))
		validate.ValidateOnly = true
		ask("validate only", validate)
		ask("unknown setting", withConfig(createRequest(1, 1, e.name("x")), "no.such", "1"))
		ask("bad value", withConfig(createRequest(1, 1, e.name("x")), "retention.ms", "abc"))
		ask("value out of range", withConfig(createRequest(1, 1, e.name("x")), "retention.ms", "-7"))
		ask("segment.bytes of 10", withConfig(createRequest(1, 1, e.name("x")), "segment.bytes",
			"10"))
		ask("min lag above max lag", withConfig(withConfig(createRequest(1, 1, e.name("x")),
			"min.compaction.lag.ms", "10"), "max.compaction.lag.ms", "5"))
		ask("bad cleanup.policy", withConfig(createRequest(1, 1, e.name("x")), "cleanup.policy",
			"shred"))
		ask("assignment to an unknown broker", assignedTo(e.name("as"), []int32{99}))
		ask("assignment to one broker twice", assignedTo(e.name("as"), []int32{1, 1}))
		ask("assignment to no broker", assignedTo(e.name("as"), []int32{}))
		both := assignedTo(e.name("as"), []int32{1})
		both.Topics[0].NumPartitions, both.Topics[0].ReplicationFactor = 1, 1
		ask("assignment and number of partitions", both)
	}
	e.partitionErrors(topic)
	e.deleteTopicErrors(collide)
	e.metadataErrors(topic)
}

func withConfig(req *kmsg.CreateTopicsRequest, name, value string) *kmsg.CreateTopicsRequest {
	rc := kmsg.NewCreateTopicsRequestTopicConfig()
	rc.Name, rc.Value = name, &value
	req.Topics[0].Configs = append(req.Topics[0].Configs, rc)
	return req
}

func assignedTo(name string, brokers []int32) *kmsg.CreateTopicsRequest {
	req := createRequest(-1, -1, name)
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Partition, ra.Replicas = 0, brokers
	req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, ra)
	return req
}

func (e *errorWire) partitionErrors(topic string) {
	for _, version := range []int16{0, 1, 2, 3} {
		ask := func(label, topic string, count int32, assignment ...[]int32) {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly = 5000, true
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = topic, count
			for _, replicas := range assignment {
				ra := kmsg.NewCreatePartitionsRequestTopicAssignment()
				ra.Replicas = replicas
				rt.Assignment = append(rt.Assignment, ra)
			}
			if assignment != nil && len(assignment) == 0 {
				rt.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			}
			req.Topics = append(req.Topics, rt)
			e.send(label, version, req)
		}
		ask("more", topic, 3)
		ask("as many as there are", topic, 1)
		ask("fewer", topic, 0)
		ask("negative", topic, -1)
		ask("unknown topic", "no-such", 3)
		ask("too few assignments", topic, 3, []int32{1})
		ask("assignment to an unknown broker", topic, 2, []int32{9})
		ask("assignments empty, not null", topic, 2, [][]int32{}...)
	}
}

func (e *errorWire) deleteTopicErrors(topic string) {
	for _, version := range []int16{1, 5, 6} {
		ask := func(label, name string, id [16]byte) {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis = 5000
			if version < 6 {
				req.TopicNames = []string{name}
			} else {
				rt := kmsg.NewDeleteTopicsRequestTopic()
				if rt.TopicID = id; name != "" {
					rt.Topic = &name
				}
				req.Topics = append(req.Topics, rt)
			}
			e.send(label, version, req)
		}
		ask("unknown topic", "no-such", [16]byte{})
		ask("empty name", "", [16]byte{})
		if version == 6 {
			ask("unknown id", "", [16]byte{1, 2, 3})
			ask("name and id", topic, e.ids[topic])
			ask("known id", "", e.ids[topic])
			ask("deleted id", "", e.ids[topic])
		}
	}
}

func (e *errorWire) metadataErrors(topic string) {
	for _, version := range []int16{0, 1, 4, 8, 9, 10, 12, 13} {
		ask := func(label string, name *string, id [16]byte) {
			req := kmsg.NewPtrMetadataRequest()
			req.AllowAutoTopicCreation = false
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic, rt.TopicID = name, id
			req.Topics = append(req.Topics, rt)
			e.send(label, version, req)
		}
		if version >= 4 { // before, the request would make it
			ask("unknown topic", new("no-such"), [16]byte{})
		}
		ask("known topic", &topic, [16]byte{})
		ask("invalid name", new("in valid"), [16]byte{})
		ask("empty name", new(""), [16]byte{})
		if version >= 12 {
			ask("unknown id", nil, [16]byte{1, 2, 3})
			ask("known id", nil, e.ids[topic])
		}
	}
	for _, name := range []string{"no-such", "in valid", topic} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 10
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
		if name == topic {
			name = "known topic"
		}
		e.send(name, 0, req)
	}
}

func (e *errorWire) configErrors() {
	topic := e.topic("c", 1)
	type resource struct {
		label string
		kind  int8
		name  string
	}
	resources := []resource{
		{"topic", 2, topic}, {"unknown topic", 2, "no-such"}, {"invalid topic name", 2, "in valid"},
		{"broker 1", 4, "1"}, {"unknown broker", 4, "99"}, {"broker that is no number", 4, "abc"},
		{"all brokers", 4, ""}, {"logger of broker 1", 8, "1"}, {"logger without a name", 8, ""},
		{"logger of an unknown broker", 8, "99"},
		{"group", 32, "g"}, {"group without a name", 32, ""},
		{"client metrics", 16, "m"}, {"client metrics without a name", 16, ""},
		{"unknown type", 3, "x"},
	}
	for _, r := range resources {
		for _, version := range []int16{1, 4} {
			req := kmsg.NewPtrDescribeConfigsRequest()
			rr := kmsg.NewDescribeConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceType(r.kind), r.name
			req.Resources = append(req.Resources, rr)
			e.send(r.label, version, req)
		}
	}
	for _, r := range resources {
		e.alterErrors(r.label, r.kind, r.name, "no.such", "1")
		switch r.kind {
		case 2:
			e.alterErrors(r.label, r.kind, r.name, "retention.ms", "1000")
			e.alterErrors(r.label, r.kind, r.name, "retention.ms", "abc")
			e.alterErrors(r.label, r.kind, r.name, "retention.ms", "-9")
		case 4:
			e.alterErrors(r.label, r.kind, r.name, "log.retention.ms", "1000")
			e.alterErrors(r.label, r.kind, r.name, "log.retention.ms", "abc")
			e.alterErrors(r.label, r.kind, r.name, "log.retention.ms", "-9")
			e.alterErrors(r.label, r.kind, r.name, "node.id", "5")
		case 32:
			e.alterErrors(r.label, r.kind, r.name, "consumer.session.timeout.ms", "50000")
			e.alterErrors(r.label, r.kind, r.name, "consumer.session.timeout.ms", "1")
		case 16:
			e.alterErrors(r.label, r.kind, r.name, "interval.ms", "1000")
			e.alterErrors(r.label, r.kind, r.name, "interval.ms", "1")
		}
	}
	for _, kind := range []int8{0, 1, 2, 3, 4} {
		label := map[int8]string{0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT", 4: "operation 4"}
		e.send(label[kind]+" of a list", 1, alterOne(2, topic, "cleanup.policy", "compact", kind))
		e.send(label[kind]+" of a number", 1, alterOne(2, topic, "retention.ms", "1000", kind))
	}
	twice := alterOne(2, topic, "retention.ms", "1000", 0)
	twice.Resources[0].Configs = append(twice.Resources[0].Configs, twice.Resources[0].Configs[0])
	e.send("the same setting twice", 1, twice)
	again := alterOne(2, topic, "retention.ms", "1000", 0)
	again.Resources = append(again.Resources, again.Resources[0])
	e.send("the same resource twice", 1, again)
	for _, version := range []int16{0, 1} {
		e.send("all", version, kmsg.NewPtrListConfigResourcesRequest())
	}
	kinds := kmsg.NewPtrListConfigResourcesRequest()
	kinds.ResourceTypes = []int8{3}
	e.send("unknown type", 1, kinds)
}

func alterOne(kind int8, name, key, value string, op int8,
) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = true
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceType(kind), name
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value, rc.Op = key, &value, kmsg.IncrementalAlterConfigOp(op)
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	return req
}

func (e *errorWire) alterErrors(label string, kind int8, name, key, value string) {
	label += ", " + key + "=" + value
	e.send(label, 1, alterOne(kind, name, key, value, 0))
	req := kmsg.NewPtrAlterConfigsRequest()
	req.ValidateOnly = true
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceType(kind), name
	rc := kmsg.NewAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = key, &value
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	e.send(label, 2, req)
}

func (e *errorWire) clusterErrors() {
	topic := e.topic("cl", 1)
	for _, version := range []int16{0, 1, 2} {
		req := kmsg.NewPtrElectLeadersRequest()
		for _, p := range []int32{0, 5} {
			rt := kmsg.NewElectLeadersRequestTopic()
			rt.Topic, rt.Partitions = topic, []int32{p}
			req.Topics = append(req.Topics, rt)
		}
		rt := kmsg.NewElectLeadersRequestTopic()
		rt.Topic, rt.Partitions = "no-such", []int32{0}
		req.Topics = append(req.Topics, rt)
		e.send("needed by none, unknown partition, unknown topic", version, req)
		if version > 0 {
			req.ElectionType = 1
			e.send("unclean", version, req)
		}
	}
	e.reassignErrors(topic)
	e.quorumErrors(topic)
	e.featureErrors()
	for _, name := range []string{topic, "no-such"} {
		req := kmsg.NewPtrDescribeProducersRequest()
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0, 9}
		req.Topics = append(req.Topics, rt)
		if name == topic {
			name = "known and unknown partition"
		}
		e.send(name, 0, req)
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 77
	e.send("unknown broker", 0, req)
}

func (e *errorWire) reassignErrors(topic string) {
	for _, replicas := range [][]int32{{1}, {99}, {}, {1, 1}, nil} {
		label := map[int]string{0: "no replica", 1: "to broker 1", 2: "to broker 1 twice"}[len(replicas)]
		if replicas == nil {
			label = "cancel"
		} else if len(replicas) == 1 && replicas[0] == 99 {
			label = "to an unknown broker"
		}
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		for _, name := range []string{topic, "no-such"} {
			rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			rt.Topic = name
			rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			rp.Partition, rp.Replicas = 0, replicas
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		e.send(label, 0, req)
	}
	e.send("all", 0, kmsg.NewPtrListPartitionReassignmentsRequest())
}

func (e *errorWire) quorumErrors(topic string) {
	for _, version := range []int16{0, 1, 2} {
		req := kmsg.NewPtrDescribeQuorumRequest()
		for _, name := range []string{"__cluster_metadata", topic} {
			rt := kmsg.NewDescribeQuorumRequestTopic()
			rt.Topic = name
			rp := kmsg.NewDescribeQuorumRequestTopicPartition()
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = []kmsg.DescribeQuorumRequestTopic{rt}
			if name == topic {
				name = "another topic"
			}
			e.send(name, version, req)
		}
	}
	for _, version := range []int16{0, 1, 2} {
		e.send("brokers", version, kmsg.NewPtrDescribeClusterRequest())
		if version > 0 {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = 2
			e.send("controllers, asked at a broker", version, req)
		}
	}
}

func (e *errorWire) featureErrors() {
	for _, c := range []struct {
		label, feature string
		level          int16
		kind           int8
	}{
		{"unknown feature", "no.such", 1, 1},
		{"level too high", "transaction.version", 9, 1},
		{"negative level", "transaction.version", -1, 1},
		{"downgrade as an upgrade", "transaction.version", 1, 1},
		{"safe downgrade", "transaction.version", 1, 2},
		{"unsafe downgrade", "transaction.version", 1, 3},
		{"the level that is", "transaction.version", 2, 1},
		{"unknown kind", "transaction.version", 1, 9},
	} {
		for _, version := range []int16{1, 2} {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.TimeoutMillis, req.ValidateOnly = 5000, true
			u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			u.Feature, u.MaxVersionLevel, u.UpgradeType = c.feature, c.level, c.kind
			req.FeatureUpdates = append(req.FeatureUpdates, u)
			e.send(c.label, version, req)
		}
	}
	e.send("no updates", 1, kmsg.NewPtrUpdateFeaturesRequest())
}
