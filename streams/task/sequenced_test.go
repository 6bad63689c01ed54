package task

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// ingest reads "lines" from the producer's position to the end, as a file source would, with
// batches and commits of random size. It ends early when a request fails.
func ingest(ctx context.Context, m *client.Memory, lines int, rnd *rand.Rand) error {
	p, err := OpenSequenced(ctx, SequencedOptions{
		Cluster: m, Writer: "file.0", Commits: client.TopicPartition{Topic: "commits"},
		Topics: []string{"out"},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	at, _ := strconv.Atoi(string(p.Position()))
	for at < lines {
		for range rnd.IntN(3) + 1 {
			for n := min(lines-at, 1+rnd.IntN(5)); n > 0; n-- {
				r := record.Record{Value: []byte(fmt.Sprint("line ", at)), Timestamp: int64(at)}
				topic, partition := "out", int32(at%3)
				if at%10 == 9 {
					topic, partition = "side", 0 // learnt when it comes
				}
				if err := p.Send(ctx, topic, partition, []record.Record{r}); err != nil {
					return err
				}
				at++
			}
		}
		if err := p.Commit(ctx, []byte(strconv.Itoa(at))); err != nil {
			return err
		}
	}
	return p.Finish(ctx, []byte(strconv.Itoa(at)))
}

func ingestTopics(t *testing.T) *client.Memory {
	m := filled(t, 1, 0)
	require.NoError(t, m.Admin().CreateTopics(t.Context(), CommitTopic("commits", 1)))
	return m
}

// requireLines checks that every line is in its partition, once and in order.
func requireLines(t *testing.T, m *client.Memory, lines int) {
	t.Helper()
	want, have := map[string][]string{}, map[string][]string{}
	for i := range lines {
		id := fmt.Sprintf("out-%d", i%3)
		if i%10 == 9 {
			id = "side-0"
		}
		want[id] = append(want[id], fmt.Sprint("line ", i))
	}
	for topic, n := range outTopics {
		for p := range n {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			for _, r := range m.Records(tp) {
				have[tp.String()] = append(have[tp.String()], string(r.Value))
			}
		}
	}
	require.Equal(t, want, have)
}

// TestSequencedCrashes fails every request of an ingest in turn, before and after it is done, and
// runs it again.
func TestSequencedCrashes(t *testing.T) {
	for _, after := range []bool{false, true} {
		for k := int64(1); ; k++ {
			m := ingestTopics(t)
			rnd := rand.New(rand.NewPCG(uint64(k), 7))
			c := crashAt(m, k, after, nil)
			err := ingest(t.Context(), m, 60, rnd)
			m.SetFaults(nil, nil)
			if !c.dead.Load() {
				require.NoError(t, err)
			}
			if k%2 == 0 { // readers of the commit topic may find it compacted
				m.Compact(client.TopicPartition{Topic: "commits"})
			}
			require.NoError(t, ingest(t.Context(), m, 60, rnd))
			requireLines(t, m, 60)
			if !c.dead.Load() {
				require.Greater(t, k, int64(20))
				break
			}
		}
	}
}

// ingestGrouped is ingest with records sent partition by partition, in batches whose size differs
// from run to run: only numbers by place in the source tell them apart then.
func ingestGrouped(ctx context.Context, m *client.Memory, lines int, rnd *rand.Rand) error {
	p, err := OpenSequenced(ctx, SequencedOptions{
		Cluster: m, Writer: "file.0", Commits: client.TopicPartition{Topic: "commits"},
		Topics: []string{"out", "side"},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	at, _ := strconv.Atoi(string(p.Position()))
	for at < lines {
		byTP := map[client.TopicPartition][]int{}
		for range min(lines-at, 1+rnd.IntN(9)) {
			tp := client.TopicPartition{Topic: "out", Partition: int32(at % 3)}
			if at%10 == 9 {
				tp = client.TopicPartition{Topic: "side"}
			}
			byTP[tp] = append(byTP[tp], at)
			at++
		}
		for _, tp := range slices.SortedFunc(maps.Keys(byTP), client.TopicPartition.Compare) {
			var records []record.Record
			var numbers []int64
			for _, line := range byTP[tp] {
				records = append(records, record.Record{Value: []byte(fmt.Sprint("line ", line)),
					Timestamp: int64(line)})
				numbers = append(numbers, int64(line+1))
			}
			if err := p.SendNumbered(ctx, tp.Topic, tp.Partition, records, numbers); err != nil {
				return err
			}
		}
		if rnd.IntN(3) > 0 {
			continue
		}
		if err := p.Commit(ctx, []byte(strconv.Itoa(at))); err != nil {
			return err
		}
	}
	return p.Finish(ctx, []byte(strconv.Itoa(at)))
}

func TestNumbersOfTheCallerSurviveOtherBatches(t *testing.T) {
	for k := int64(1); k < 80; k++ {
		m := ingestTopics(t)
		rnd := rand.New(rand.NewPCG(uint64(k), 11))
		crashAt(m, k/2+1, k%2 == 0, nil)
		_ = ingestGrouped(t.Context(), m, 60, rnd) // may or may not get that far
		m.SetFaults(nil, nil)
		require.NoError(t, ingestGrouped(t.Context(), m, 60, rnd))
		requireLines(t, m, 60)
	}
}

func TestSequencedWritersShareATopic(t *testing.T) {
	m := ingestTopics(t)
	open := func(name string) *SequencedProducer {
		p, err := OpenSequenced(t.Context(), SequencedOptions{Cluster: m, Writer: name,
			Commits: client.TopicPartition{Topic: "commits"}, Topics: []string{"out"}})
		require.NoError(t, err)
		return p
	}
	a, b := open("a"), open("b")
	require.Nil(t, a.Position())
	send := func(p *SequencedProducer, v string) {
		rec := record.Record{Value: []byte(v), Headers: []record.Header{{Key: "h"}}}
		require.NoError(t, p.Send(t.Context(), "out", 0, []record.Record{rec}))
	}
	send(a, "a1")
	require.NoError(t, a.Commit(t.Context(), []byte("1")))
	for i := range 400 { // push a's commit out of the first step of the search
		send(b, fmt.Sprint("b", i))
		require.NoError(t, b.Commit(t.Context(), []byte(fmt.Sprint(i))))
	}
	send(a, "a2") // not committed
	a.Close()
	b.Close()
	a = open("a")
	require.Equal(t, "1", string(a.Position()))
	send(a, "a2")
	send(a, "a3")
	require.Zero(t, a.Dropped(), "what was not committed is not there")
	require.NoError(t, a.Commit(t.Context(), []byte("3")))
	ends, err := a.Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]map[int32]int64{"out": {0: 807, 1: 0, 2: 0}}, ends,
		"a record and a marker each, of the one that was given up too")
	records := m.Records(client.TopicPartition{Topic: "out"})
	require.Equal(t, "a3", string(records[402].Value))
	require.Equal(t, "h", records[402].Headers[0].Key, "headers are kept, ours is the last")
	lane, err := ParseLane(records[402].Headers[1].Value)
	require.NoError(t, err)
	require.Equal(t, "a", lane.Writer)
	require.EqualValues(t, 3, lane.Seq)
	a.Close()
}

func TestSequencedOptionsAreChecked(t *testing.T) {
	_, err := OpenSequenced(t.Context(), SequencedOptions{})
	require.ErrorContains(t, err, "no cluster")
	require.ErrorContains(t, err, "no writer name")
	require.ErrorContains(t, err, "no topic for commits")
}

// TestSourceAndPositionAreOneTransaction: records of a source can be read when its position is
// stored, and not before; who opens the writer ends what a former one had open and keeps it out.
func TestSourceAndPositionAreOneTransaction(t *testing.T) {
	m := ingestTopics(t)
	open := func() *SequencedProducer {
		p, err := OpenSequenced(t.Context(), SequencedOptions{Cluster: m, Writer: "file.0",
			Commits: client.TopicPartition{Topic: "commits"}, Topics: []string{"out"}})
		require.NoError(t, err)
		return p
	}
	out, side := client.TopicPartition{Topic: "out"}, client.TopicPartition{Topic: "side"}
	commits := client.TopicPartition{Topic: "commits"}
	a := open()
	before := len(m.Records(commits))
	send := func(p *SequencedProducer, topic, v string) error {
		return p.Send(t.Context(), topic, 0, []record.Record{{Value: []byte(v)}})
	}
	require.NoError(t, send(a, "out", "1"))
	require.NoError(t, send(a, "side", "2"), "a topic that was not named")
	require.Empty(t, m.Records(out))
	require.Empty(t, m.Records(side))
	require.Len(t, m.Records(commits), before)
	require.NoError(t, a.Commit(t.Context(), []byte("2")))
	require.Len(t, m.Records(out), 1)
	require.Len(t, m.Records(side), 1)
	require.Len(t, m.Records(commits), before+1)

	require.NoError(t, send(a, "out", "3"))
	b := open()
	require.Equal(t, "2", string(b.Position()))
	require.ErrorIs(t, a.Commit(t.Context(), []byte("3")), client.ErrLost)
	a.Close()
	require.NoError(t, send(b, "out", "3"))
	require.NoError(t, b.Finish(t.Context(), []byte("3")))
	b.Close()
	require.Len(t, m.Records(out), 2)
	require.Len(t, m.Records(side), 1)
}
