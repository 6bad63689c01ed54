package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMessagesAreKafkas: the texts of errors that Kafka's tools print to people, who search for
// them and whose scripts do, are those of an Apache Kafka 4.3.1; see adminWire.
func TestMessagesAreKafkas(t *testing.T) {
	w := newAdminWire(t, nil)
	w.createTopic("m-a", 2)
	w.createTopic("m.b", 1)
	w.createMessages()
	w.partitionMessages()
	w.configMessages()
	w.featureMessages()
	w.finish("testdata/messages_kafka_4.3.1.txt")
}

// say writes an error's text down.
func (w *adminWire) say(label string, code int16, message *string) {
	text := ""
	if message != nil && *message != kerr.TypedErrorForCode(code).Description {
		text = *message // else clients have the same text for the code
	}
	fmt.Fprintf(&w.out, "%s: %d %s\n", label, code, text)
}

func (w *adminWire) createMessages() {
	for _, v := range []struct {
		name       string
		partitions int32
		factor     int16
		config     [2]string
	}{
		{"m-a", 1, 1, [2]string{}},
		{"m_b", 1, 1, [2]string{}},
		{"t b", 1, 1, [2]string{}},
		{"", 1, 1, [2]string{}},
		{".", 1, 1, [2]string{}},
		{"..", 1, 1, [2]string{}},
		{strings.Repeat("x", 250), 1, 1, [2]string{}},
		{"m-n", 0, 1, [2]string{}},
		{"m-n", -2, 1, [2]string{}},
		{"m-n", 1, 0, [2]string{}},
		{"m-n", 1, 2, [2]string{}},
		{"m-n", 1, 1, [2]string{"no.such", "1"}},
		{"m-n", 1, 1, [2]string{"cleanup.policy", "shred"}},
		{"m-n", 1, 1, [2]string{"retention.ms", "x"}},
		{"m-n", 1, 1, [2]string{"retention.ms", "-2"}},
	} {
		r := newTopicRequest(v.name, v.partitions, v.factor)
		r.ValidateOnly = true
		if v.config[0] != "" {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = v.config[0], &v.config[1]
			r.Topics[0].Configs = append(r.Topics[0].Configs, c)
		}
		got := askAdmin[*kmsg.CreateTopicsResponse](w, r).Topics[0]
		w.say(fmt.Sprintf("create %q %d %d %s", v.name, v.partitions, v.factor, v.config),
			got.ErrorCode, got.ErrorMessage)
	}
}

func (w *adminWire) partitionMessages() {
	for _, v := range []struct {
		name  string
		count int32
	}{{"m-a", 1}, {"m-a", 2}, {"m-a", 0}, {"m-a", -1}, {"m-none", 3}} {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis, r.ValidateOnly = 10000, true
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = v.name, v.count
		r.Topics = append(r.Topics, topic)
		got := askAdmin[*kmsg.CreatePartitionsResponse](w, r).Topics[0]
		w.say(fmt.Sprintf("partitions %q %d", v.name, v.count), got.ErrorCode, got.ErrorMessage)
	}
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis = 10000
	r.Topics = append(r.Topics, kmsg.DeleteTopicsRequestTopic{Topic: new("m-none")})
	got := askAdmin[*kmsg.DeleteTopicsResponse](w, r).Topics[0]
	w.say("delete m-none", got.ErrorCode, got.ErrorMessage)
}

func (w *adminWire) configMessages() {
	for _, c := range []configChange{
		{topicResource, "m-none", "retention.ms", 0, new("5")},
		{topicResource, "t b", "retention.ms", 0, new("5")},
		{topicResource, "m-a", "no.such", 0, new("5")},
		{topicResource, "m-a", "cleanup.policy", 0, new("shred")},
		{topicResource, "m-a", "compression.type", 0, new("shred")},
		{topicResource, "m-a", "message.timestamp.type", 0, new("shred")},
		{topicResource, "m-a", "retention.ms", 0, new("x")},
		{topicResource, "m-a", "retention.ms", 0, new("-2")},
		{topicResource, "m-a", "segment.bytes", 0, new("5")},
		{topicResource, "m-a", "segment.bytes", 0, new("2147483648")},
		{topicResource, "m-a", "preallocate", 0, new("maybe")},
		{topicResource, "m-a", "min.cleanable.dirty.ratio", 0, new("2")},
		{topicResource, "m-a", "min.cleanable.dirty.ratio", 0, new("x")},
		{topicResource, "m-a", "retention.ms", 2, new("5")},
		{brokerResource, "1", "log.dirs", 0, new("x")},
		{brokerResource, "1", "node.id", 0, new("3")},
		{brokerResource, "", "node.id", 0, new("3")},
		{brokerResource, "x", "log.retention.ms", 0, new("1")},
	} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.ValidateOnly = true
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = c.kind, c.name
		change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		change.Name, change.Op, change.Value = c.config, kmsg.IncrementalAlterConfigOp(c.op), c.value
		r.Configs = append(r.Configs, change)
		req.Resources = append(req.Resources, r)
		got := askAdmin[*kmsg.IncrementalAlterConfigsResponse](w, req).Resources[0]
		w.say(fmt.Sprintf("alter %d %q %s %s %s", c.kind, c.name, opNames[c.op], c.config, *c.value),
			got.ErrorCode, got.ErrorMessage)
	}
}

func (w *adminWire) featureMessages() {
	for _, v := range []struct {
		name  string
		level int16
		kind  int8
	}{
		{"no.such", 1, 1}, {"transaction.version", 9, 1}, {"transaction.version", 1, 1},
		{"group.version", -1, 1}, {"group.version", 9, 2}, {"group.version", 1, 7},
	} {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis, req.ValidateOnly = 10000, true
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = v.name, v.level, v.kind
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		got := askAdmin[*kmsg.UpdateFeaturesResponse](w, req)
		w.say(fmt.Sprintf("feature %s %d type %d", v.name, v.level, v.kind),
			got.ErrorCode, got.ErrorMessage)
	}
}
