package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// More chapters of TestAdminsAreAnsweredAsKafkaDoes.

// opNames are the operations of IncrementalAlterConfigs.
var opNames = []string{"set", "delete", "append", "subtract", "op 4"}

// configChange is one change by IncrementalAlterConfigs.
type configChange struct {
	kind   kmsg.ConfigResourceType
	name   string
	config string
	op     int8
	value  *string
}

var null *string

var (
	configChanges = []configChange{
		{topicResource, "w-a", "retention.ms", 0, new("5000")},
		{topicResource, "w-a", "retention.ms", 0, null},
		{topicResource, "w-a", "retention.ms", 2, new("5000")},
		{topicResource, "w-a", "retention.ms", 1, null},
		{topicResource, "w-a", "retention.ms", 1, new("5")},
		{topicResource, "w-a", "nope", 0, new("5")},
		{topicResource, "w-a", "nope", 1, null},
		{topicResource, "w-a", "", 0, new("5")},
		{topicResource, "w-a", "cleanup.policy", 2, new("compact")},
		{topicResource, "w-a", "cleanup.policy", 2, new("compact")},
		{topicResource, "w-a", "cleanup.policy", 2, new("nope")},
		{topicResource, "w-a", "cleanup.policy", 3, new("nope")},
		{topicResource, "w-a", "cleanup.policy", 3, new("compact")},
		{topicResource, "w-a", "cleanup.policy", 3, new("delete")},
		{topicResource, "w-a", "cleanup.policy", 1, null},
		{topicResource, "w-none", "retention.ms", 0, new("5")},
		{topicResource, "a/b", "retention.ms", 0, new("5")},
		{topicResource, "", "retention.ms", 0, new("5")},
		{topicResource, "w-a", "min.insync.replicas", 0, new("3")},
		{topicResource, "w-a", "min.insync.replicas", 1, null},
		{topicResource, "w-a", "min.compaction.lag.ms", 0, new("1000")},
		{topicResource, "w-a", "max.compaction.lag.ms", 0, new("999")},
		{topicResource, "w-a", "min.compaction.lag.ms", 1, null},
		{brokerResource, "", "log.retention.ms", 0, new("600000")},
		{brokerResource, "1", "log.retention.ms", 0, new("700000")},
		{brokerResource, "1", "log.retention.ms", 1, null},
		{brokerResource, "", "log.retention.ms", 1, null},
		{brokerResource, "2", "log.retention.ms", 0, new("1")},
		{brokerResource, "x", "log.retention.ms", 0, new("1")},
		{brokerResource, "-1", "log.retention.ms", 0, new("1")},
		{brokerResource, "1", "num.partitions", 0, new("3")},
		{brokerResource, "", "num.partitions", 0, new("3")},
		{brokerResource, "1", "num.partitions", 1, null},
		{brokerResource, "1", "node.id", 0, new("3")},
		{brokerResource, "1", "log.cleanup.policy", 2, new("compact")},
		{brokerResource, "1", "log.cleanup.policy", 1, null},
		{brokerResource, "1", "message.max.bytes", 2, new("3")},
	}
	otherChanges = []configChange{
		{groupResource, "w-g", "consumer.session.timeout.ms", 0, new("50000")},
		{groupResource, "w-g", "consumer.heartbeat.interval.ms", 0, new("6000")},
		{groupResource, "w-g", "nope", 0, new("6000")},
		{groupResource, "", "consumer.heartbeat.interval.ms", 0, new("6000")},
		{groupResource, "w-g", "consumer.heartbeat.interval.ms", 2, new("6000")},
		{groupResource, "w-g", "consumer.session.timeout.ms", 1, null},
		{metricsResource, "w-m", "interval.ms", 0, new("5000")},
		{metricsResource, "w-m", "metrics", 0, new("org.apache.,foo")},
		{metricsResource, "w-m", "match", 0, new("client_id=a.*")},
		{metricsResource, "w-m", "nope", 0, new("x")},
		{metricsResource, "", "interval.ms", 0, new("5000")},
		{8, "1", "root", 0, new("ERROR")},
		{8, "1", "root", 0, new("WARN")},
		{8, "1", "root", 0, new("LOUD")},
		{8, "1", "root", 0, new("info")},
		{8, "1", "root", 0, null},
		{8, "1", "root", 1, null},
		{8, "1", "root", 2, new("ERROR")},
		{8, "1", "no.such.logger", 0, new("ERROR")},
		{8, "1", "no.such.logger", 1, null},
		{8, "", "root", 0, new("ERROR")},
		{8, "2", "root", 0, new("ERROR")},
		{8, "x", "root", 0, new("ERROR")},
		{3, "x", "y", 0, new("ERROR")},
		{0, "x", "y", 0, new("ERROR")},
	}
)

func (w *adminWire) configsWire() {
	for _, c := range slices.Concat(configChanges, otherChanges) {
		value := "null"
		if c.value != nil {
			value = *c.value
		}
		code := w.alter(c.kind, c.name, c.config, kmsg.IncrementalAlterConfigOp(c.op), c.value, false)
		fmt.Fprintf(&w.out, "alter %d %q %s %s %s: %d\n", c.kind, c.name, opNames[c.op], c.config,
			value, code)
	}
	w.duplicatesWire()
	w.describesWire()
	w.legacyWire()
	for version := int16(0); version <= 1; version++ {
		for _, types := range [][]int8{nil, {2}, {4}, {8}, {16}, {32}, {2, 2}, {0}, {3}, {64}} {
			if version == 0 && types != nil {
				continue
			}
			req := kmsg.NewPtrListConfigResourcesRequest()
			req.ResourceTypes = types
			w.sendVersion(fmt.Sprint("list ", types), version, req)
		}
	}
}

// sendVersion asks in a version.
func (w *adminWire) sendVersion(label string, version int16, req kmsg.Request) {
	w.t.Helper()
	w.send(fmt.Sprintf("%s v%d", label, version), pinned{req, version})
}

// pinned is a request of one version only.
type pinned struct {
	kmsg.Request
	version int16
}

// MaxVersion bounds the version that the client chooses.
func (p pinned) MaxVersion() int16 { return p.version }

func (w *adminWire) duplicatesWire() {
	twice := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = topicResource, "w-a"
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "segment.ms", new("100000")
	r.Configs = append(r.Configs, c, c)
	twice.Resources = append(twice.Resources, r)
	w.send("alter config twice", twice)
	r.Configs = r.Configs[:1]
	twice.Resources = append(twice.Resources[:0], r, r)
	w.send("alter resource twice", twice)
	bad := c
	bad.Name = "nope"
	r.Configs = append(r.Configs, bad)
	twice.Resources = append(twice.Resources[:0], r)
	w.send("alter good and bad", twice)
	r.Configs = nil
	twice.Resources = append(twice.Resources[:0], r)
	w.send("alter nothing", twice)
}

func (w *adminWire) describesWire() {
	for _, r := range []struct {
		kind  kmsg.ConfigResourceType
		name  string
		names []string
	}{
		{topicResource, "w-a", []string{"retention.ms", "nope", "segment.ms"}},
		{topicResource, "w-a", []string{}}, {topicResource, "w-none", nil},
		{topicResource, "a/b", nil}, {topicResource, "", nil}, {brokerResource, "2", nil},
		{brokerResource, "x", nil}, {brokerResource, "-1", nil},
		{brokerResource, "1", []string{"log.retention.ms"}}, {8, "2", nil}, {8, "", nil},
		{8, "x", nil}, {8, "1", []string{"root"}}, {8, "1", []string{"no.such.logger"}},
		{groupResource, "w-g", []string{"consumer.heartbeat.interval.ms"}},
		{groupResource, "", []string{"consumer.heartbeat.interval.ms"}},
		{metricsResource, "w-m", nil}, {metricsResource, "w-m2", []string{"metrics"}},
		{metricsResource, "", nil}, {0, "x", nil}, {3, "x", nil}, {64, "x", nil},
	} {
		req := kmsg.NewPtrDescribeConfigsRequest()
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = r.kind, r.name, r.names
		req.Resources = append(req.Resources, rr)
		got := askAdmin[*kmsg.DescribeConfigsResponse](w, req).Resources
		fmt.Fprintf(&w.out, "describe %d %q %v:", r.kind, r.name, r.names)
		for _, res := range got {
			fmt.Fprintf(&w.out, " %d", res.ErrorCode)
			if len(res.Configs) > 10 {
				fmt.Fprint(&w.out, " many")
				continue
			}
			for _, c := range res.Configs {
				value := "null"
				if c.Value != nil {
					value = *c.Value
				}
				fmt.Fprintf(&w.out, " %s=%s@%d", c.Name, value, c.Source)
			}
		}
		fmt.Fprintln(&w.out)
	}
}

// legacyWire is AlterConfigs, which replaces everything.
func (w *adminWire) legacyWire() {
	alter := func(label string, kind kmsg.ConfigResourceType, name string, kv ...string) {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		for i := 0; i+1 < len(kv); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name = kv[i]
			if kv[i+1] != "null" {
				c.Value = &kv[i+1]
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		w.send("replace "+label, req)
	}
	alter("topic", topicResource, "w-a", "retention.ms", "7000")
	alter("topic null", topicResource, "w-a", "retention.ms", "null")
	alter("topic unknown", topicResource, "w-a", "nope", "1")
	alter("topic twice", topicResource, "w-a", "retention.ms", "1", "retention.ms", "2")
	alter("topic none", topicResource, "w-none", "retention.ms", "7000")
	alter("broker", brokerResource, "1", "log.retention.ms", "700000")
	alter("broker read-only", brokerResource, "1", "num.partitions", "2")
	alter("broker nothing", brokerResource, "1")
	alter("logger", 8, "1", "root", "ERROR")
	alter("group", groupResource, "w-g", "consumer.heartbeat.interval.ms", "7000")
	alter("metrics", metricsResource, "w-m2", "interval.ms", "7000")
}

func (w *adminWire) clusterWire() {
	elect := func(label string, kind int8, topics ...kmsg.ElectLeadersRequestTopic) {
		r := kmsg.NewPtrElectLeadersRequest()
		r.ElectionType, r.TimeoutMillis, r.Topics = kind, 10000, topics
		w.send("elect "+label, r)
	}
	one := func(topic string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
		return kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: partitions}
	}
	elect("preferred", 0, one("w-a", 0, 1, 99, -1))
	elect("unclean", 1, one("w-a", 0))
	elect("unknown", 0, one("w-none", 0))
	elect("type 2", 2, one("w-a", 0))
	elect("nothing", 0, one("w-a"))
	elect("no topics", 0, []kmsg.ElectLeadersRequestTopic{}...)
	all := kmsg.NewPtrElectLeadersRequest()
	all.Topics, all.TimeoutMillis = nil, 10000
	w.send("elect all", all)
	w.reassignWire()
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 2
	for _, name := range []string{"w-none", "w-a", "a/b", "w-compact"} {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		describe.Topics = append(describe.Topics, t)
	}
	w.send("describe topics", describe)
	for _, c := range []struct {
		topic     string
		partition int32
	}{{"w-a", 2}, {"w-a", 99}, {"w-a", -1}, {"w-b", 0}, {"w-none", 0}, {"zzz", 0}, {"", 0}} {
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = c.topic, c.partition
		describe.Cursor = &cursor
		w.send(fmt.Sprint("describe topics from ", c), describe)
	}
	describe.Cursor, describe.ResponsePartitionLimit = nil, 0
	w.send("describe topics limit 0", describe)
	describe.ResponsePartitionLimit = -1
	w.send("describe topics limit -1", describe)
	producers := kmsg.NewPtrDescribeProducersRequest()
	for _, name := range []string{"w-none", "w-a"} {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = name, []int32{0, 99}
		producers.Topics = append(producers.Topics, t)
	}
	w.send("producers", producers)
	for i, kind := range []int8{1, 2, 0, 3, 1} {
		r := kmsg.NewPtrDescribeClusterRequest()
		r.EndpointType, r.IncludeClusterAuthorizedOperations = kind, i == 4
		w.send(fmt.Sprint("cluster ", kind), r)
	}
	w.quorumWire()
}

func (w *adminWire) reassignWire() {
	move := func(label string, allowFactor bool, topic string, partition int32, replicas []int32) {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis, r.AllowReplicationFactorChange = 10000, allowFactor
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = partition, replicas
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		w.send("move "+label, r)
	}
	move("stay", true, "w-a", 0, []int32{1})
	move("unknown broker", true, "w-a", 0, []int32{2})
	move("add unknown broker", true, "w-a", 0, []int32{1, 2})
	move("twice", true, "w-a", 0, []int32{1, 1})
	move("none", true, "w-a", 0, []int32{})
	move("negative", true, "w-a", 0, []int32{-1})
	move("cancel", true, "w-a", 0, nil)
	move("unknown partition", true, "w-a", 99, []int32{1})
	move("cancel unknown partition", true, "w-a", 99, nil)
	move("unknown topic", true, "w-none", 0, []int32{1})
	move("factor", false, "w-a", 0, []int32{1, 2})
	move("factor stays", false, "w-a", 0, []int32{1})
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	w.send("moves", list)
	t := kmsg.NewListPartitionReassignmentsRequestTopic()
	t.Topic, t.Partitions = "w-a", []int32{0, 99}
	list.Topics = append(list.Topics, t)
	w.send("moves of topic", list)
}

func (w *adminWire) quorumWire() {
	quorum := func(label, topic string, partition int32) {
		r := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = partition
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		w.send("quorum "+label, r)
	}
	quorum("metadata", "__cluster_metadata", 0)
	quorum("metadata 1", "__cluster_metadata", 1)
	quorum("topic", "w-a", 0)
	for _, id := range []int32{2, -1} {
		r := kmsg.NewPtrUnregisterBrokerRequest()
		r.BrokerID = id
		w.send(fmt.Sprint("unregister ", id), r)
	}
}

// TestFeaturesAreUpdatedAsKafkaDoes tries all kinds of updates of features; see adminWire.
func TestFeaturesAreUpdatedAsKafkaDoes(t *testing.T) {
	w := newAdminWire(t, nil)
	feature := func(name string, level int16, validate bool, kinds ...int8) {
		for version := int16(0); version <= 2; version++ {
			fmt.Fprintf(&w.out, "feature %s %d validate=%v v%d:", name, level, validate, version)
			for _, kind := range kinds {
				r := kmsg.NewPtrUpdateFeaturesRequest()
				r.TimeoutMillis, r.ValidateOnly = 10000, validate
				f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
				f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, kind
				f.AllowDowngrade = kind > 1
				r.FeatureUpdates = append(r.FeatureUpdates, f)
				got := askAdmin[*kmsg.UpdateFeaturesResponse](w, pinned{r, version})
				fmt.Fprintf(&w.out, " type %d: %d", kind, got.ErrorCode)
				for _, result := range got.Results {
					fmt.Fprintf(&w.out, " (%s %d)", result.Feature, result.ErrorCode)
				}
			}
			fmt.Fprintln(&w.out)
		}
	}
	for _, f := range []struct {
		name  string
		level int16
	}{
		{"nope", 1}, {"nope", 0}, {"transaction.version", 3}, {"transaction.version", 1},
		{"transaction.version", 0}, {"transaction.version", -1}, {"transaction.version", 2},
		{"group.version", 0}, {"group.version", 1}, {"group.version", 2}, {"metadata.version", 99},
		{"metadata.version", 6}, {"", 1},
	} {
		feature(f.name, f.level, true, 0, 1, 2, 3, 4)
	}
	feature("transaction.version", 1, false, 2, 1)
	feature("transaction.version", 2, false, 2, 1)
	feature("group.version", 0, false, 3)
	feature("group.version", 1, false, 2)
	w.finish("testdata/features_kafka_4.3.1.txt")
}
