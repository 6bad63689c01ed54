package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const groupsGolden = "testdata/groups_kafka_4.4.0.txt"

// TestGroupsAnswerAsKafkaDoes asks everything about groups in many versions, in good and bad order,
// and compares with what an Apache Kafka 4.4.0 answered to the same requests. Record it again with
// a one-node Kafka with group.initial.rebalance.delay.ms=1500:
//
//	go test ./core/server -run GroupsAnswerAsKafka -record-from 127.0.0.1:19092
//
// Left out of the comparison are ids, addresses, the order of arrays (Kafka keeps hash order), the
// texts of errors, and groups that Kafka makes of joins it refuses.
func TestGroupsAnswerAsKafkaDoes(t *testing.T) {
	w := newGroupWire(t, newAnswerer(t, map[string]string{
		"group.initial.rebalance.delay.ms": "1500",
	}))
	w.prepare()
	w.coordinators()
	w.strangers()
	w.simpleConsumers()
	w.life()
	w.staticMembers()
	compareAnswers(t, groupsGolden, w.out.String(), nil)
}

// groupWire sends requests in chosen versions and writes down the answers.
type groupWire struct {
	t       *testing.T
	broker  answerer
	mu      sync.Mutex             // guards clients: some wait in the background
	clients map[string]*kgo.Client // by request and version
	names   map[string]string      // what each uuid is called in the text
	topicID [16]byte
	out     strings.Builder
}

const wireTopic = "wire"

func newGroupWire(t *testing.T, broker answerer) *groupWire {
	return &groupWire{t: t, broker: broker, clients: make(map[string]*kgo.Client),
		names: make(map[string]string)}
}

func (w *groupWire) prepare() {
	ctx, admin := w.t.Context(), kadm.NewClient(w.broker.client(w.t))
	_, err := admin.CreateTopic(ctx, 3, 1, nil, wireTopic)
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool {
		topics, err := admin.ListTopics(ctx, wireTopic)
		w.topicID = topics[wireTopic].ID
		return err == nil && len(topics[wireTopic].Partitions) == 3
	}, time.Minute, 10*time.Millisecond)
	// The first question creates the topic of groups, which takes Kafka a moment. Only then does the
	// list tell that all of it is loaded.
	require.Eventually(w.t, func() bool {
		found := admin.FindGroupCoordinators(ctx, "w-life")
		groups, err := admin.ListGroups(ctx)
		if err != nil || len(groups) > 0 || found["w-life"].Err != nil {
			return false
		}
		// A heartbeat is accepted blindly while its group is being loaded.
		for _, g := range []string{"w-none", "w-simple", "w-life", "w-static", ""} {
			resp := w.ask(4, beatRequest(g, "x", 1, nil)).(*kmsg.HeartbeatResponse)
			if resp.ErrorCode != 25 && resp.ErrorCode != 24 {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)
}

// ask sends a request in a version.
func (w *groupWire) ask(version int16, req kmsg.Request) kmsg.Response {
	key := fmt.Sprintf("%T %d", req, version)
	w.mu.Lock()
	cl := w.clients[key]
	if cl == nil {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(req.Key(), version)
		cl = w.broker.client(w.t, kgo.MaxVersions(versions))
		w.clients[key] = cl
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	resp, err := cl.Broker(1).RetriableRequest(ctx, req)
	if err != nil {
		w.t.Errorf("%s: %v", key, err)
		return req.ResponseKind()
	}
	return resp
}

// send asks and writes the answer down.
func (w *groupWire) send(label string, version int16, req kmsg.Request) kmsg.Response {
	resp := w.ask(version, req)
	w.write(fmt.Sprintf("%s v%d", label, version), resp)
	return resp
}

// later asks in the background. The first version of a client is settled before, so that the
// request goes out at once.
func (w *groupWire) later(version int16, req kmsg.Request) <-chan kmsg.Response {
	ch := make(chan kmsg.Response, 1)
	key := fmt.Sprintf("%T %d", req, version)
	w.mu.Lock()
	settled := w.clients[key] != nil
	w.mu.Unlock()
	if !settled {
		w.ask(version, joinRequest("", ""))
	}
	go func() { ch <- w.ask(version, req) }()
	return ch
}

var (
	wireUUID    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	wireMessage = regexp.MustCompile(`"ErrorMessage":"[^"]{20,}"`)
	wireTopicID = regexp.MustCompile(`"TopicID":\[[^\]]*\]`)
)

func (w *groupWire) write(label string, resp kmsg.Response) {
	b, err := json.Marshal(resp)
	require.NoError(w.t, err)
	s := wireMessage.ReplaceAllString(string(b), `"ErrorMessage":"text"`)
	s = wireTopicID.ReplaceAllStringFunc(s, func(id string) string {
		if strings.Contains(id, "[0,0,0,0,0,0") {
			return `"TopicID":""`
		}
		return `"TopicID":"id"`
	})
	s = wireUUID.ReplaceAllStringFunc(s, func(id string) string {
		if w.names[id] == "" {
			w.names[id] = fmt.Sprint("uuid", len(w.names)+1)
		}
		return w.names[id]
	})
	var v any
	require.NoError(w.t, json.Unmarshal([]byte(s), &v))
	b, err = json.Marshal(canonical(v))
	require.NoError(w.t, err)
	fmt.Fprintf(&w.out, "%s %s\n", label, b)
}

// joinRequest is a JoinGroup; protocols are "name=metadata".
func joinRequest(group, id string, protocols ...string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType = group, id, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10000, 1000
	for _, p := range protocols {
		protocol := kmsg.NewJoinGroupRequestProtocol()
		name, metadata, _ := strings.Cut(p, "=")
		protocol.Name, protocol.Metadata = name, []byte(metadata)
		r.Protocols = append(r.Protocols, protocol)
	}
	return r
}

func staticJoin(group, id, instance string, protocols ...string) *kmsg.JoinGroupRequest {
	r := joinRequest(group, id, protocols...)
	r.InstanceID = &instance
	return r
}

// syncRequest is a SyncGroup; assign has member ids, each of which is its own assignment.
func syncRequest(group, id string, gen int32, instance *string, assign ...string,
) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = group, id, gen, instance
	r.ProtocolType, r.Protocol = new("consumer"), new("range")
	for i, member := range assign {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = member, fmt.Append(nil, "part", i)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

func beatRequest(group, id string, gen int32, instance *string) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = group, id, gen, instance
	return r
}

// leaveRequest is a LeaveGroup for "id" or "id@instance".
func leaveRequest(group string, members ...string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group = group
	for _, member := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		id, instance, static := strings.Cut(member, "@")
		if m.MemberID = id; static {
			m.InstanceID = &instance
		}
		r.MemberID = id
		r.Members = append(r.Members, m)
	}
	return r
}

func describeRequest(groups ...string) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = groups
	return r
}

func (w *groupWire) commit(group, id string, gen int32, topic string, partition int32,
	metadata string,
) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation = group, id, gen
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, w.idOf(topic)
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, 5, 0, &metadata
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func (w *groupWire) idOf(topic string) [16]byte {
	if topic == wireTopic {
		return w.topicID
	}
	return [16]byte{1, 2, 3}
}

// fetch is an OffsetFetch; nil topics are all.
func (w *groupWire) fetch(version int16, group string, topics []string) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	r.Group, g.Group = group, group
	if topics != nil {
		r.Topics = []kmsg.OffsetFetchRequestTopic{}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, topic := range topics {
		partitions := []int32{0, 1, 99}
		r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{
			Topic: topic, Partitions: partitions,
		})
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{
			Topic: topic, TopicID: w.idOf(topic), Partitions: partitions,
		})
	}
	if version >= 8 {
		r.Groups = append(r.Groups, g)
	}
	return r
}
