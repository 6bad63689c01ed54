package group

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/consumer"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

func TestKIP848_LoadsWhatKafkaWrote(t *testing.T) {
	b, err := os.ReadFile("testdata/kafka_4.4.0/consumer_groups.log")
	require.NoError(t, err)
	w := newConsumerWorld(t, Settings{})
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		require.NoError(t, err)
		b = rest
		require.NoError(t, batch.Each(1<<20, func(r *record.Record) error {
			w.log = append(w.log, r.Clone())
			return nil
		}))
	}
	w.reload()
	// What TestKIP848_AnswersAsKafkaDoes recorded as the end.
	var listed []string
	for _, g := range w.do(listInput{}).(ListResponse).Groups {
		listed = append(listed, g.GroupID+" "+g.Type+" "+g.State)
	}
	slices.Sort(listed)
	require.Equal(t, []string{
		"c-commit consumer Empty", "c-grow consumer Stable", "c-move classic Empty",
		"c-regex consumer Empty", "c-static consumer Empty", "c-topics consumer Empty",
	}, listed)
	d := w.do(describeConsumerInput{"c-grow"}).(DescribeConsumerResponse)
	require.EqualValues(t, 3, d.Epoch)
	require.EqualValues(t, 3, d.AssignmentEpoch)
	require.Equal(t, "m1", d.Members[0].MemberID)
	require.EqualValues(t, 3, d.Members[0].Epoch)

	// The hash of the topic is Kafka's: the group goes on in its epoch. With a partition more it
	// would not.
	last := offsets.ConsumerCurrent{}
	for _, r := range w.log {
		if k, _ := offsets.ReadKey(r.Key); k.Group == "c-grow" && k.Kind == offsets.KindConsumerCurrent {
			last, err = offsets.ReadConsumerCurrent(r.Value)
			require.NoError(t, err)
		}
	}
	next := &fakeTopics{version: 9, topics: map[string]Topic{
		"wire": {Name: "wire", ID: last.Assigned[0].TopicID, Partitions: 5},
	}}
	w.topics = next
	grow := func(r *ConsumerHeartbeatRequest) { r.GroupID = "c-grow" }
	require.EqualValues(t, 3, w.beat("m1", 3, grow).MemberEpoch)
	next = &fakeTopics{version: 10, topics: map[string]Topic{
		"wire": {Name: "wire", ID: last.Assigned[0].TopicID, Partitions: 6},
	}}
	w.topics = next
	w.now = time.Now().Add(time.Hour)
	require.EqualValues(t, 4, w.beat("m1", 3, grow).MemberEpoch)
}

func TestKIP848_SilentMemberIsTakenOut(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	require.EqualValues(t, 2, w.beat("a", 0, joins("t")).MemberEpoch)
	w.pass(44 * time.Second)
	w.beat("a", 2)
	w.pass(44 * time.Second)
	require.Equal(t, []string{"a"}, w.memberIDs())
	w.pass(2 * time.Second)
	require.Equal(t, consumer.StateEmpty, w.describe().State)
	require.Equal(t, coordinator.CodeUnknownMemberID, w.beat("a", 2).Code)

	// Settings of the group, and after a restart sessions begin anew.
	w.opts.Settings.Groups = map[string]GroupSettings{"g": {
		SessionTimeout: 50 * time.Second, HeartbeatInterval: 9 * time.Second,
	}}
	require.EqualValues(t, 9000, w.beat("b", 0, joins("t")).IntervalMS)
	w.pass(49 * time.Second)
	w.reload()
	w.pass(49 * time.Second)
	require.Equal(t, []string{"b"}, w.memberIDs())
	w.pass(time.Second)
	require.Empty(t, w.memberIDs())
}

func TestKIP848_WhoDoesNotGiveBackIsTakenOut(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	w.beat("a", 0, joins("t"))
	w.pass(time.Second) // the next assignment may be computed
	require.Empty(t, w.beat("b", 0, joins("t")).Assignment)
	require.Len(t, w.beat("a", 2).Assignment[0].Partitions, 2)
	w.pass(20 * time.Second)
	require.EqualValues(t, 2, w.beat("a", 2).MemberEpoch, "has not given back")
	require.Equal(t, consumer.StateReconciling, w.describe().State)
	w.pass(9 * time.Second)
	require.Len(t, w.memberIDs(), 2)
	w.beat("b", 3)
	w.pass(2 * time.Second)
	require.Equal(t, []string{"b"}, w.memberIDs())
	w.pass(time.Second)
	require.Len(t, w.beat("b", 3).Assignment[0].Partitions, 3)
}

func TestKIP848_AwayMemberKeepsItsPlaceUntilItsSessionEnds(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	w.beat("a", 0, joins("t"), static("i"))
	require.EqualValues(t, -2, w.beat("a", -2, static("i")).MemberEpoch)
	w.pass(44 * time.Second)
	back := w.beat("b", 0, joins("t"), static("i"))
	require.EqualValues(t, 2, back.MemberEpoch, "no new epoch")
	require.Len(t, back.Assignment[0].Partitions, 3)
	require.Equal(t, coordinator.CodeUnreleasedInstanceID,
		w.beat("c", 0, joins("t"), static("i")).Code)
	w.beat("b", -2, static("i"))
	w.pass(46 * time.Second)
	require.Empty(t, w.memberIDs())
}

func TestKIP848_AssignmentsKeepTheirDistance(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	w.beat("a", 0, joins("t"))
	require.EqualValues(t, 2, w.beat("b", 0, joins("t")).MemberEpoch, "still the last assignment")
	require.Equal(t, consumer.StateAssigning, w.describe().State)
	w.pass(999 * time.Millisecond)
	require.EqualValues(t, 2, w.beat("b", 2).MemberEpoch)
	w.pass(time.Millisecond)
	require.EqualValues(t, 3, w.beat("b", 2).MemberEpoch)
}

func TestKIP848_ChangedTopicsBumpTheEpoch(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}}, "t", "u")
	w.beat("a", 0, joins("t", "absent"))
	w.setTopic("u", 9)
	require.EqualValues(t, 2, w.beat("a", 2).MemberEpoch, "not its topic")
	w.setTopic("t", 5)
	grown := w.beat("a", 2)
	require.EqualValues(t, 3, grown.MemberEpoch)
	require.Equal(t, []int32{0, 1, 2, 3, 4}, grown.Assignment[0].Partitions)
	w.setTopic("absent", 1)
	require.Len(t, w.beat("a", 3).Assignment, 2)
	delete(w.topics.topics, "t")
	w.topics.version++
	gone := w.beat("a", 4)
	require.Len(t, gone.Assignment, 1)
	w.reload()
	require.EqualValues(t, w.describe().Epoch, 5)
}

// TestKIP848_FailedAppendIsTriedAgain: a new epoch that was lost is found by the next heartbeat.
func TestKIP848_FailedAppendIsTriedAgain(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}}, "t")
	w.fail = coordinator.CodeNotCoordinator
	require.Equal(t, coordinator.CodeNotCoordinator, w.beat("a", 0, joins("t")).Code)
	require.Empty(t, w.do(listInput{}).(ListResponse).Groups)
	w.classicGroup(nil) // nothing of the group that was to be is in its way
	w.m.Handle(w.now, 0, &LeaveRequest{GroupID: "g", Members: []LeaveMember{{MemberID: "c-1"}}})
	w.log, w.topics.version = nil, w.topics.version+1
	w.reload()
	w.beat("a", 0, joins("t"))
	w.setTopic("t", 5)
	w.fail = coordinator.CodeCoordinatorNotAvailable
	require.Equal(t, coordinator.CodeCoordinatorNotAvailable, w.beat("a", 2).Code)
	require.Equal(t, []int32{0, 1, 2, 3, 4}, w.beat("a", 2).Assignment[0].Partitions)
}

func TestKIP848_ExpressionsFollowTheTopics(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}},
		"orders", "orders-eu")
	joined := w.beat("a", 0, matches("orders(-..)?"))
	require.Empty(t, joined.Assignment)
	require.EqualValues(t, 1, joined.MemberEpoch)
	w.pass(0) // resolves
	require.Len(t, w.beat("a", 1).Assignment, 2)
	w.setTopic("my-orders", 1)
	w.setTopic("orders-us", 1)
	require.EqualValues(t, 2, w.beat("a", 2).MemberEpoch, "not within 10 s of the last time")
	w.pass(10*time.Second + time.Millisecond)
	w.beat("a", 2)
	w.pass(0)
	require.Len(t, w.beat("a", 2).Assignment, 3, "whole names only")
	records := len(w.log)
	w.setTopic("other", 1)
	w.pass(20 * time.Second)
	w.beat("a", 3)
	w.pass(0)
	require.Len(t, w.log, records, "nothing to write")
	require.Equal(t, coordinator.CodeInvalidRegularExpression,
		w.beat("a", 3, func(r *ConsumerHeartbeatRequest) { r.Regex = new("(") }).Code)
	w.reload()
	require.EqualValues(t, 3, w.beat("a", 3).MemberEpoch)
	w.beat("a", -1)
	w.reload()
	require.Equal(t, consumer.StateEmpty, w.describe().State)
}

func TestKIP848_FullGroupTakesNobody(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{MaxSize: 1}}, "t")
	w.beat("a", 0, joins("t"), static("i"))
	require.Equal(t, coordinator.CodeGroupMaxSizeReached, w.beat("b", 0, joins("t")).Code)
	w.beat("a", -2, static("i"))
	require.EqualValues(t, 0, w.beat("b", 0, joins("t"), static("i")).Code, "its own place")
}

func TestKIP848_MigrationPolicy(t *testing.T) {
	for policy, allowed := range map[string][2]bool{
		consumer.MigrateBoth: {true, true}, consumer.MigrateUpgrade: {true, false},
		consumer.MigrateDowngrade: {false, true}, consumer.MigrateNever: {false, false},
	} {
		w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{
			MigrationPolicy: policy, AssignmentInterval: -1,
		}}, "t")
		id := w.classicGroup([]byte(wholeTopic + "\xff\xff\xff\xff"))
		resp := w.beat("a", 0, joins("t"))
		if !allowed[0] {
			require.Equal(t, coordinator.CodeGroupIDNotFound, resp.Code, policy)
			w.opts.Settings.Consumer.MigrationPolicy = consumer.MigrateUpgrade
			w.reload()
			resp = w.beat("a", 0, joins("t"))
		}
		require.EqualValues(t, 2, resp.MemberEpoch)
		w.reload() // the log has all of it
		require.Len(t, w.memberIDs(), 2)
		require.Equal(t, coordinator.CodeRebalanceInProgress,
			w.do(&HeartbeatRequest{GroupID: "g", MemberID: id, Generation: 1}).(HeartbeatResponse).Code)
		w.opts.Settings.Consumer.MigrationPolicy = policy
		w.reload()
		w.beat("a", -1)
		for range 2 {
			list := w.do(listInput{}).(ListResponse).Groups
			require.Len(t, list, 1)
			require.Equal(t, map[bool]string{true: typeClassic, false: typeConsumer}[allowed[1]],
				list[0].Type, policy)
			w.reload()
		}
	}
}

func TestKIP848_UserDataOfAssignorsKeepsAGroupClassic(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	w.classicGroup([]byte(wholeTopic + "\x00\x00\x00\x01x"))
	require.Equal(t, coordinator.CodeGroupIDNotFound, w.beat("a", 0, joins("t")).Code)
	require.Equal(t, classic.Stable, w.do(describeInput{"g"}).(DescribeResponse).State)
}

func TestKIP848_DowngradedMembersJoinAgain(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}}, "t")
	id := w.classicGroup([]byte(wholeTopic + "\xff\xff\xff\xff"))
	w.beat("a", 0, joins("t"))
	w.beat("a", -1)
	require.Equal(t, classic.PreparingRebalance, w.do(describeInput{"g"}).(DescribeResponse).State)
	require.Equal(t, coordinator.CodeRebalanceInProgress,
		w.do(&HeartbeatRequest{GroupID: "g", MemberID: id, Generation: 2}).(HeartbeatResponse).Code)
	w.pass(30 * time.Second) // it does not
	require.Equal(t, classic.Empty, w.do(describeInput{"g"}).(DescribeResponse).State)
}

func TestKIP848_ClassicMemberThatDoesNotJoinIsTakenOut(t *testing.T) {
	w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}}, "t")
	id := w.classicGroup([]byte(wholeTopic + "\xff\xff\xff\xff"))
	w.beat("a", 0, joins("t"))
	for range 6 {
		require.Equal(t, coordinator.CodeRebalanceInProgress,
			w.do(&HeartbeatRequest{GroupID: "g", MemberID: id, Generation: 1}).(HeartbeatResponse).Code)
		w.beat("a", 2)
		w.pass(5 * time.Second)
	}
	require.Equal(t, []string{"a"}, w.memberIDs(), "30 s after it was told to join")
}

func TestKIP211_ConsumerGroupsLoseOffsetsNobodyReads(t *testing.T) {
	w := newConsumerWorld(t, Settings{OffsetsRetention: time.Hour}, "t", "u")
	w.beat("a", 0, joins("t"))
	for _, topic := range []string{"t", "u"} {
		codes := w.do(&CommitRequest{
			GroupID: "g", MemberID: "a", Generation: 2, APIVersion: 9, RetentionMS: -1,
			Offsets: []OffsetCommit{{Topic: topic, Offset: 1}},
		}).(CommitResponse).Codes
		require.Equal(t, []ErrorCode{0}, codes)
	}
	for range 3 * 60 {
		w.pass(30 * time.Second)
		w.beat("a", 2)
	}
	require.Equal(t, []string{"t"}, w.m.offsets.Topics("g"))
	require.EqualValues(t, 1, w.m.count.Expired.Load())
	w.beat("a", -1)
	w.pass(10 * time.Minute)
	require.Empty(t, w.m.offsets.Topics("g"))
	require.Empty(t, w.do(listInput{}).(ListResponse).Groups)
	w.reload()
	require.Empty(t, w.do(listInput{}).(ListResponse).Groups)
}

func TestKIP848_DeletedGroupStaysDeleted(t *testing.T) {
	w := newConsumerWorld(t, Settings{}, "t")
	w.beat("a", 0, joins("t"))
	require.Equal(t, codeOnly{coordinator.CodeNonEmptyGroup}, w.do(deleteInput{"g"}))
	w.beat("a", -1)
	require.Equal(t, codeOnly{}, w.do(deleteInput{"g"}))
	w.reload()
	require.Equal(t, coordinator.CodeGroupIDNotFound, w.describe().Code)
}
