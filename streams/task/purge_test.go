package task

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/client"
)

// TestPurgeStopsAtWhatIsCommitted: only what a reader has committed as processed may go.
func TestPurgeStopsAtWhatIsCommitted(t *testing.T) {
	m := rideLog(t, nil)
	w, err := NewWorker(rideOptions(t, m, ""))
	require.NoError(t, err)
	tp := client.TopicPartition{Topic: "rides-by_country-repartition", Partition: 1}
	require.Empty(t, w.purgeable())
	w.committed([]Input{{Topic: tp.Topic, Partition: 1, Offset: 50, Repartition: true},
		{Topic: "rides", Partition: 1, Offset: 70}})
	require.Equal(t, map[client.TopicPartition]int64{tp: 50}, w.purgeable())
}

// TestPurgeKeepsResults deletes as often as it can, first in a run that goes on until something was
// deleted, then in runs with crashes.
func TestPurgeKeepsResults(t *testing.T) {
	list := rides(1500, 8)
	m := rideLog(t, list)
	_, err := runWorker(t.Context(), t, rideOptions(t, m, ""))
	require.NoError(t, err)
	want := lanesOf(t, m, rideTopics)

	m = rideLog(t, list)
	dir := t.TempDir()
	options := func() Options {
		o := rideOptions(t, m, dir)
		o.PurgeInterval = time.Millisecond
		return o
	}
	o := options()
	o.Bounded = false
	w, err := NewWorker(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	repartition := client.TopicPartition{Topic: "rides-by_country-repartition"}
	require.Eventually(t, func() bool {
		ranges, err := m.Admin().Ranges(t.Context(), repartition)
		return err == nil && ranges[repartition].Start > 0
	}, waitFor, tick)
	stop()
	require.NoError(t, <-ended)

	for k := int64(50); ; k += 50 {
		c := crashAt(m, k, k%100 == 0, nil)
		_, err := runWorker(t.Context(), t, options())
		m.SetFaults(nil, nil)
		if err == nil && !c.dead.Load() {
			break
		}
	}
	requireLanes(t, want, lanesOf(t, m, rideTopics))
}
