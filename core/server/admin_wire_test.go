package server_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAdminsAreAnsweredAsKafkaDoes asks what administrators ask, in good and bad order, and
// compares with what an Apache Kafka 4.3.1 answered to the same requests; see adminWire. Left out
// of the comparison are ids, addresses, the order of arrays (Kafka keeps hash order) and texts of
// errors.
func TestAdminsAreAnsweredAsKafkaDoes(t *testing.T) {
	w := newAdminWire(t, nil)
	w.topicsWire()
	w.partitionsWire()
	w.recordsWire()
	w.configsWire()
	w.clusterWire()
	w.finish("testdata/admin_kafka_4.3.1.txt")
}

// send asks and writes the answer down.
func (w *adminWire) send(label string, req kmsg.Request) {
	w.t.Helper()
	w.write(label, askAdmin[kmsg.Response](w, req))
}

func (w *adminWire) write(label string, resp kmsg.Response) {
	b, err := json.Marshal(resp)
	require.NoError(w.t, err)
	var v any
	require.NoError(w.t, json.Unmarshal(b, &v))
	b, err = json.Marshal(canonical(shortened(v)))
	require.NoError(w.t, err)
	fmt.Fprintf(&w.out, "%s %s\n", label, b)
}

// shortened leaves out what is different by nature and what other tests compare.
func shortened(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch key {
			case "TopicID":
				id, _ := json.Marshal(value)
				v[key] = string(id) != "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"
			case "Configs", "ErrorMessage", "ClusterID", "BrokerEpoch":
				delete(v, key)
			case "LastTimestamp", "LastFetchTimestamp", "LastCaughtUpTimestamp", "HighWatermark",
				"LogEndOffset", "LeaderEpoch", "ReplicaDirectoryID", "Listeners":
				if key == "LeaderEpoch" && value == float64(-1) {
					break
				}
				delete(v, key)
			default:
				v[key] = shortened(value)
			}
		}
	case []any:
		// Kafka answers what is named twice once.
		var once []any
		for i := range v {
			short := shortened(v[i])
			if !slices.ContainsFunc(once, func(o any) bool { return reflect.DeepEqual(o, short) }) {
				once = append(once, short)
			}
		}
		return once
	}
	return v
}

func newTopicRequest(name string, partitions int32, factor int16,
) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	req.Topics = append(req.Topics, t)
	return req
}

func (w *adminWire) topicsWire() {
	for _, v := range []struct {
		name       string
		partitions int32
		factor     int16
	}{
		{"w-a", 2, 1}, {"w-a", 2, 1}, {"w-b", 0, 1}, {"w-b", -2, 1}, {"w-b", 1, 0}, {"w-b", 1, 2},
		{"w-b", 1, -2}, {"w-b", -1, 1}, {"w.a", 1, 1}, {"w_a", 1, 1}, {"", 1, 1}, {".", 1, 1},
		{"..", 1, 1}, {"a b", 1, 1}, {"a/b", 1, 1}, {"__cluster_metadata", 1, 1}, {"w.x", 1, 1},
		{"w_x", 1, 1}, {"w-big", 10001, 1},
	} {
		w.send(fmt.Sprintf("create %q %d %d", v.name, v.partitions, v.factor),
			newTopicRequest(v.name, v.partitions, v.factor))
	}
	only := newTopicRequest("w-only", 1, 1)
	only.ValidateOnly = true
	w.send("create validate", only)
	only.Topics[0].Topic = "w-a"
	w.send("create validate existing", only)
	twice := newTopicRequest("w-twice", 1, 1)
	twice.Topics = append(twice.Topics, newTopicRequest("w-twice", 2, 1).Topics[0],
		newTopicRequest("w-other", 1, 1).Topics[0])
	w.send("create twice", twice)
	w.assignedWire()
	w.deletesWire()
}

// assignedWire creates topics with replicas and settings of their own.
func (w *adminWire) assignedWire() {
	for _, a := range []map[int32][]int32{
		{0: {1}, 1: {1}}, {0: {1}, 2: {1}}, {1: {1}}, {0: {2}}, {0: {1, 1}}, {0: {}}, {0: {-1}},
		{0: {1}, 1: {1, 2}},
	} {
		for _, counts := range [][2]int{{-1, -1}, {2, 1}} {
			r := newTopicRequest(fmt.Sprintf("w-as-%d", len(w.out.String())), int32(counts[0]),
				int16(counts[1]))
			label := fmt.Sprint("create assigned ", a, counts)
			for p := range int32(4) {
				if replicas, ok := a[p]; ok {
					ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
					ra.Partition, ra.Replicas = p, replicas
					r.Topics[0].ReplicaAssignment = append(r.Topics[0].ReplicaAssignment, ra)
				}
			}
			r.ValidateOnly = true
			resp := askAdmin[*kmsg.CreateTopicsResponse](w, r)
			resp.Topics[0].Topic = ""
			w.write(label, resp)
		}
	}
	twiceAssigned := newTopicRequest("w-as", -1, -1)
	for range 2 {
		ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		ra.Replicas = []int32{1}
		twiceAssigned.Topics[0].ReplicaAssignment = append(
			twiceAssigned.Topics[0].ReplicaAssignment, ra)
	}
	w.send("create assigned twice", twiceAssigned)
	for _, c := range [][2]string{
		{"nope", "1"}, {"retention.ms", "x"}, {"retention.ms", "-1"}, {"cleanup.policy", "compact"},
		{"min.compaction.lag.ms", "5"}, {"segment.bytes", "5"}, {"internal.segment.bytes", "200"},
		{"remote.storage.enable", "true"}, {"remote.storage.enable", "false"},
	} {
		r := newTopicRequest("w-conf", 1, 1)
		r.ValidateOnly = true
		tc := kmsg.NewCreateTopicsRequestTopicConfig()
		tc.Name, tc.Value = c[0], &c[1]
		r.Topics[0].Configs = append(r.Topics[0].Configs, tc)
		if c[0] == "min.compaction.lag.ms" {
			more := kmsg.NewCreateTopicsRequestTopicConfig()
			more.Name, more.Value = "max.compaction.lag.ms", new("4")
			r.Topics[0].Configs = append(r.Topics[0].Configs, more)
		}
		w.send(fmt.Sprint("create config ", c), r)
		tc.Value = nil
		r.Topics[0].Configs = append(r.Topics[0].Configs[:0], tc)
		w.send(fmt.Sprint("create config without value ", c[0]), r)
	}
}

func (w *adminWire) deletesWire() {
	remove := func(label string, topics ...kmsg.DeleteTopicsRequestTopic) {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis = 10000
		r.Topics = topics
		w.send(label, r)
	}
	named := func(name string) kmsg.DeleteTopicsRequestTopic {
		return kmsg.DeleteTopicsRequestTopic{Topic: &name}
	}
	remove("delete unknown", named("w-none"))
	remove("delete bad name", named("a/b"))
	remove("delete empty name", named(""))
	remove("delete unknown id", kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1, 2}})
	remove("delete zero id", kmsg.DeleteTopicsRequestTopic{})
	remove("delete name and id", kmsg.DeleteTopicsRequestTopic{
		Topic: new("w-a"), TopicID: [16]byte{1, 2}})
	remove("delete twice", named("w-twice"), named("w-twice"), named("w-other"))
	remove("delete nothing")
	remove("delete other", named("w-other"))
	remove("delete other again", named("w-other"))
}

func (w *adminWire) partitionsWire() {
	grow := func(label string, validate bool, topics ...kmsg.CreatePartitionsRequestTopic) {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis, r.ValidateOnly, r.Topics = 10000, validate, topics
		w.send("partitions "+label, r)
	}
	topic := func(name string, count int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, count
		for _, r := range replicas {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = r
			t.Assignment = append(t.Assignment, a)
		}
		return t
	}
	grow("same", false, topic("w-a", 2))
	grow("less", false, topic("w-a", 1))
	grow("zero", false, topic("w-a", 0))
	grow("negative", false, topic("w-a", -1))
	grow("unknown", false, topic("w-none", 3))
	grow("no name", false, topic("", 3))
	empty := topic("w-a", 3)
	empty.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	grow("empty assignment", false, empty)
	grow("unknown broker", false, topic("w-a", 3, []int32{2}))
	grow("two replicas", false, topic("w-a", 3, []int32{1, 2}))
	grow("broker twice", false, topic("w-a", 3, []int32{1, 1}))
	grow("no replicas", false, topic("w-a", 3, []int32{}))
	grow("few assigned", false, topic("w-a", 4, []int32{1}))
	grow("many assigned", false, topic("w-a", 3, []int32{1}, []int32{1}))
	grow("validate", true, topic("w-a", 3))
	grow("assigned", false, topic("w-a", 3, []int32{1}))
	grow("twice", false, topic("w-a", 5), topic("w-a", 6))
	grow("grow", false, topic("w-a", 4))
}

func (w *adminWire) recordsWire() {
	remove := func(label, topic string, partition int32, offset int64) {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.TimeoutMillis = 10000
		t := kmsg.NewDeleteRecordsRequestTopic()
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		w.send("records "+label, r)
	}
	w.awaitTopic("w-a", 1)
	for range 5 {
		r := produceRequest(9, "w-a", [16]byte{}, 0, sizedBatch(w.t, 2000))
		got := askAdmin[*kmsg.ProduceResponse](w, pinned{r, 9})
		require.Zero(w.t, got.Topics[0].Partitions[0].ErrorCode)
	}
	remove("before 2", "w-a", 0, 2)
	remove("before 2 again", "w-a", 0, 2)
	remove("before 1", "w-a", 0, 1)
	remove("before 0", "w-a", 0, 0)
	remove("beyond", "w-a", 0, 11)
	remove("below -1", "w-a", 0, -2)
	remove("high watermark", "w-a", 0, -1)
	remove("high watermark again", "w-a", 0, -1)
	remove("empty partition", "w-a", 1, -1)
	remove("unknown partition", "w-a", 99, 0)
	remove("negative partition", "w-a", -1, 0)
	remove("unknown topic", "w-none", 0, 0)
	for name, policy := range map[string]string{
		"w-compact": "compact", "w-compact-delete": "compact,delete", "w-keep": "",
	} {
		create := newTopicRequest(name, 1, 1)
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "cleanup.policy", &policy
		create.Topics[0].Configs = append(create.Topics[0].Configs, c)
		askAdmin[kmsg.Response](w, create)
		w.awaitTopic(name, 0)
	}
	remove("compacted", "w-compact", 0, 0)
	remove("compacted and deleted", "w-compact-delete", 0, 0)
	remove("kept", "w-keep", 0, 0)
}
