package task

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/client"
)

// TestPurgeStopsAtTheSlowestReaderAndWriter: the limit is the lowest committed position of the
// reader and of all writers, and unknown until each of them has committed.
func TestPurgeStopsAtTheSlowestReaderAndWriter(t *testing.T) {
	m := rideLog(t, nil)
	w, err := NewWorker(rideOptions(t, m, ""))
	require.NoError(t, err)
	tp := client.TopicPartition{Topic: "rides-by_country-repartition", Partition: 1}
	var reader *loop
	for _, l := range w.loops {
		if l.name == "rides.by_country.1" {
			reader = l
		}
	}
	require.NotNil(t, reader)
	require.Empty(t, w.purgeable())
	w.mu.offsets[tp] = map[*loop]int64{reader: 50}
	w.mu.written[tp] = map[string]int64{"rides.rides.0": 70, "rides.rides.1": 60}
	require.Empty(t, w.purgeable(), "one writer has not committed")
	w.mu.written[tp]["rides.rides.2"] = 55
	require.Equal(t, map[client.TopicPartition]int64{tp: 50}, w.purgeable())
	w.mu.written[tp]["rides.rides.0"] = 20 // wrote on to beyond 50, but committed only this
	require.Equal(t, map[client.TopicPartition]int64{tp: 20}, w.purgeable())
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
