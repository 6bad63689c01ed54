package group

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/consumer"
)

// client is a member that behaves.
type client struct {
	id       string
	epoch    int32
	topics   []string
	assigned []ConsumerPartitions
	changed  bool // it has to report what it has
}

func (c *client) beat(w *consumerWorld) {
	var change []func(*ConsumerHeartbeatRequest)
	switch {
	case c.epoch == 0:
		change = append(change, joins(c.topics...))
	case c.changed:
		change = append(change, owns(c.assigned))
	}
	resp := w.beat(c.id, c.epoch, change...)
	if resp.Code == coordinator.CodeFencedMemberEpoch || resp.Code == coordinator.CodeUnknownMemberID {
		c.epoch, c.assigned = 0, nil
		return
	}
	require.EqualValues(w.t, 0, resp.Code, resp.Message)
	c.epoch, c.changed = resp.MemberEpoch, resp.Assignment != nil
	if resp.Assignment != nil {
		c.assigned = resp.Assignment
	}
}

// checkOwners checks that no partition is with two clients.
func checkOwners(t *rapid.T, clients []*client) (count int) {
	owners := make(map[string]string)
	for _, c := range clients {
		for _, tp := range c.assigned {
			for _, p := range tp.Partitions {
				key := fmt.Sprint(tp.TopicID, p)
				require.Empty(t, owners[key], "with %s and %s", owners[key], c.id)
				owners[key] = c.id
			}
		}
	}
	return len(owners)
}

// TestKIP848_NoPartitionIsWithTwoMembers lets members come, go, report, change their topics, lose
// the coordinator and meet new partitions in any order: at no time do two of them have a partition,
// and when it is quiet, each is with one.
func TestKIP848_NoPartitionIsWithTwoMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newConsumerWorld(t, Settings{Consumer: ConsumerSettings{AssignmentInterval: -1}},
			"t", "u", "v")
		var clients []*client
		topics := func() []string {
			return rapid.SampledFrom([][]string{{"t"}, {"t", "u"}, {"u", "v"}, {"t", "u", "v"}}).
				Draw(t, "topics")
		}
		for n := range rapid.IntRange(10, 60).Draw(t, "steps") {
			what := rapid.IntRange(0, 9).Draw(t, "what")
			if len(clients) == 0 {
				what = 0
			}
			at := 0
			if what > 0 {
				at = rapid.IntRange(0, len(clients)-1).Draw(t, "client")
			}
			switch what {
			case 0:
				clients = append(clients, &client{id: fmt.Sprint("m", n), topics: topics()})
			case 1:
				if clients[at].epoch > 0 {
					w.beat(clients[at].id, -1)
				}
				clients = slices.Delete(clients, at, at+1)
			case 2:
				w.reload()
			case 3:
				name := rapid.SampledFrom([]string{"t", "u", "v"}).Draw(t, "grows")
				w.setTopic(name, min(w.topics.topics[name].Partitions+1, 8))
			case 4:
				w.fail = coordinator.CodeCoordinatorNotAvailable
				c := *clients[at]
				if c.epoch > 0 {
					w.beat(c.id, c.epoch) // lost, to be sent again
				}
				w.fail = 0
			default:
				clients[at].beat(w)
			}
			checkOwners(t, clients)
		}
		settle(t, w, clients)
	})
}

// settle lets all members report until nothing changes, and checks that all is assigned.
func settle(t *rapid.T, w *consumerWorld, clients []*client) {
	for range 12 {
		for _, c := range clients {
			c.beat(w)
			checkOwners(t, clients)
		}
	}
	subscribed := make(map[string]struct{})
	for _, c := range clients {
		for _, name := range c.topics {
			subscribed[name] = struct{}{}
		}
	}
	want := 0
	for name := range subscribed {
		want += int(w.topics.topics[name].Partitions)
	}
	require.Equal(t, want, checkOwners(t, clients))
	if len(clients) > 0 {
		require.Equal(t, consumer.StateStable, w.describe().State)
		before := w.describe()
		w.reload()
		require.Equal(t, before, w.describe(), "the log has all of it")
	}
}
