package assign_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/group/assign"
)

// topicID is the id of the topic that the texts call n.
func topicID(n int) uuid.UUID { return uuid.UUID{14: byte(n >> 8), 15: byte(n)} }

func parsePartitions(t *testing.T, s string) assign.Partitions {
	p := assign.Partitions{}
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ';' }) {
		topic, list, _ := strings.Cut(part, ":")
		for _, n := range strings.Split(list, ",") {
			p[topicID(number(t, topic))] = append(p[topicID(number(t, topic))], int32(number(t, n)))
		}
	}
	return p
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// TestAssignorsAnswerAsKafka replays what the assignors of Apache Kafka 4.4.0 gave for random
// groups that change in five steps each, with members and topics in sorted order:
//
//	assignor topic:partitions ...
//	member instance=id topics=list target=topic:partitions;...
//	-> member topic:partitions;...
func TestAssignorsAnswerAsKafka(t *testing.T) {
	f, err := os.Open("testdata/kafka_4.4.0.txt")
	require.NoError(t, err)
	defer f.Close()
	var assignor assign.Func
	var group assign.Group
	var got map[string]assign.Partitions
	cases := 0
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case assign.ByName[name] != nil:
			assignor, got = assign.ByName[name], nil
			group = assign.Group{PartitionCounts: make(map[uuid.UUID]int32)}
			for _, field := range strings.Fields(rest) {
				topic, count, _ := strings.Cut(field, ":")
				group.PartitionCounts[topicID(number(t, topic))] = int32(number(t, count))
			}
		case name != "->":
			group.Members = append(group.Members, parseMember(t, name, rest))
		default:
			if got == nil {
				got, err = assignor(group)
				require.NoError(t, err)
				cases++
			}
			member, want, _ := strings.Cut(rest, " ")
			require.Equal(t, parsePartitions(t, want), got[member], "line %d", n)
		}
	}
	require.Equal(t, 300, cases)
}

func parseMember(t *testing.T, name, rest string) assign.Member {
	m := assign.Member{ID: name}
	for _, field := range strings.Split(rest, " ") {
		key, value, _ := strings.Cut(field, "=")
		switch {
		case key == "instance" && value != "":
			m.InstanceID = &value
		case key == "topics":
			for _, topic := range strings.Split(value, ",") {
				m.Topics = append(m.Topics, topicID(number(t, topic)))
			}
		case key == "target":
			m.Target = parsePartitions(t, value)
		}
	}
	return m
}

func TestAssignorsRefuseUnknownTopics(t *testing.T) {
	for name, assignor := range assign.ByName {
		_, err := assignor(assign.Group{Members: []assign.Member{{
			ID: "a", Topics: []uuid.UUID{topicID(1)},
		}}})
		require.ErrorIs(t, err, assign.ErrUnknownTopic, name)
		got, err := assignor(assign.Group{})
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

// drawGroup makes a group whose members subscribe to random topics, or all to the same.
func drawGroup(t *rapid.T, same bool) assign.Group {
	g := assign.Group{PartitionCounts: make(map[uuid.UUID]int32)}
	topics := rapid.IntRange(1, 6).Draw(t, "topics")
	for n := 1; n <= topics; n++ {
		g.PartitionCounts[topicID(n)] = rapid.Int32Range(0, 20).Draw(t, "partitions")
	}
	draw := func() (list []uuid.UUID) {
		for n := 1; n <= topics; n++ {
			if rapid.Bool().Draw(t, "subscribes") {
				list = append(list, topicID(n))
			}
		}
		return list
	}
	all := draw()
	for n := range rapid.IntRange(1, 10).Draw(t, "members") {
		m := assign.Member{ID: fmt.Sprint("m", n), Topics: all}
		if !same {
			m.Topics = draw()
		}
		g.Members = append(g.Members, m)
	}
	return g
}

// eachOnce checks that every partition someone subscribes to is assigned to one subscriber.
func eachOnce(t *rapid.T, g assign.Group, got map[string]assign.Partitions) {
	owners := make(map[string]string)
	want := make(map[string]struct{})
	for _, m := range g.Members {
		for _, topic := range m.Topics {
			for p := range g.PartitionCounts[topic] {
				want[fmt.Sprint(topic, p)] = struct{}{}
			}
		}
		for topic, list := range got[m.ID] {
			require.Contains(t, m.Topics, topic)
			require.True(t, slices.IsSorted(list) && len(list) > 0)
			for _, p := range list {
				key := fmt.Sprint(topic, p)
				require.Empty(t, owners[key], "twice")
				owners[key] = m.ID
			}
		}
	}
	require.Len(t, owners, len(want))
}

func TestAssignorsAssignEachPartitionOnce(t *testing.T) {
	for name, assignor := range assign.ByName {
		rapid.Check(t, func(t *rapid.T) {
			g := drawGroup(t, rapid.Bool().Draw(t, "same"))
			for range 3 {
				got, err := assignor(g)
				require.NoError(t, err, name)
				eachOnce(t, g, got)
				for i := range g.Members {
					g.Members[i].Target = got[g.Members[i].ID]
				}
				if len(g.Members) > 1 && rapid.Bool().Draw(t, "leaves") {
					g.Members = g.Members[1:]
				}
			}
		})
	}
}

func size(p assign.Partitions) (n int) {
	for _, list := range p {
		n += len(list)
	}
	return n
}

// TestUniformIsBalancedAndSticky: with equal subscriptions sizes differ by one at most, nothing
// moves when nothing changes, and when a member leaves the others keep all they have.
func TestUniformIsBalancedAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, true)
		before, err := assign.Uniform(g)
		require.NoError(t, err)
		least, most := 1<<30, 0
		for i := range g.Members {
			g.Members[i].Target = before[g.Members[i].ID]
			n := size(g.Members[i].Target)
			least, most = min(least, n), max(most, n)
		}
		require.LessOrEqual(t, most-least, 1)
		again, err := assign.Uniform(g)
		require.NoError(t, err)
		require.Equal(t, before, again)
		if len(g.Members) < 2 {
			return
		}
		g.Members = g.Members[1:]
		after, err := assign.Uniform(g)
		require.NoError(t, err)
		for _, m := range g.Members {
			for topic, list := range m.Target {
				require.Subset(t, after[m.ID][topic], list)
			}
		}
	})
}

func TestRangeCoPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, true)
		for topic := range g.PartitionCounts {
			g.PartitionCounts[topic] = 7
		}
		got, err := assign.Range(g)
		require.NoError(t, err)
		for _, m := range g.Members {
			for _, topic := range m.Topics {
				require.Equal(t, got[m.ID][m.Topics[0]], got[m.ID][topic])
			}
		}
	})
}

func BenchmarkUniform(b *testing.B) {
	g := assign.Group{PartitionCounts: map[uuid.UUID]int32{topicID(1): 1000, topicID(2): 1000}}
	for n := range 500 {
		g.Members = append(g.Members, assign.Member{
			ID: fmt.Sprint("m", n), Topics: []uuid.UUID{topicID(1), topicID(2)},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := assign.Uniform(g); err != nil {
			b.Fatal(err)
		}
	}
}
