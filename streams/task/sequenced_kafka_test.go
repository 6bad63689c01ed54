package task

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// TestSequencedOnBroker ingests over a broker that loses its power, with a producer that is given
// up at any moment and opened again: every line is there once.
func TestSequencedOnBroker(t *testing.T) {
	k, broker, net := kafkaRides(t, nil)
	require.NoError(t, k.Admin().CreateTopics(t.Context(), CommitTopic("commits", 1),
		client.TopicSpec{Name: "lines", Partitions: 1}))
	const lines = 400
	for try, at := 0, 0; at < lines; try++ {
		p, err := OpenSequenced(t.Context(), SequencedOptions{
			Cluster: k, Writer: "file.0", Commits: client.TopicPartition{Topic: "commits"},
			Topics: []string{"lines"},
		})
		require.NoError(t, err, "try %d", try)
		at = 0
		if pos := p.Position(); pos != nil {
			_, err := fmt.Sscan(string(pos), &at)
			require.NoError(t, err)
		}
		for stop := at + 70; at < min(stop, lines); at++ {
			r := record.Record{Value: fmt.Append(nil, "line ", at), Timestamp: int64(at)}
			require.NoError(t, p.Send(t.Context(), "lines", 0, []record.Record{r}))
			if at%30 == 29 || at == lines-1 {
				require.NoError(t, p.Commit(t.Context(), fmt.Append(nil, at+1)))
			}
		}
		switch try % 3 {
		case 0: // given up with records on their way
		case 1: // all written, not committed
			require.NoError(t, p.w.producer.Flush(t.Context()))
		case 2:
			net.during(broker.Crash)
		}
		p.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	consumer, err := k.Consumer()
	require.NoError(t, err)
	defer consumer.Close()
	tp := client.TopicPartition{Topic: "lines"}
	ranges, err := k.Admin().Ranges(ctx, tp)
	require.NoError(t, err)
	var have, want []string
	require.NoError(t, client.ReadRange(ctx, consumer, tp, 0, ranges[tp].End,
		func(recs []record.Record) error {
			for i := range recs {
				have = append(have, string(recs[i].Value))
			}
			return nil
		}))
	for i := range lines {
		want = append(want, fmt.Sprint("line ", i))
	}
	require.Equal(t, want, have)
}
