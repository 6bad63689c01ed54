package sdk_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

type noConfig struct{}

// alarm sets a timer 10 ms behind each record, moves it with the next one of its key, and tells
// when it fires. "now" sets one that is due at once, "drop" deletes it, "bad" fails after it set
// one.
func alarm() sdk.Part {
	return sdk.NewTimed("alarm", sdk.Timed[noConfig]{
		Each: func(t sdk.TimerCtx, _ noConfig, r *sdk.Record, emit sdk.Emit) error {
			at := r.Timestamp().Add(10 * time.Millisecond)
			switch string(r.Value()) {
			case "drop":
				t.DeleteTimer("quiet")
				return nil
			case "now":
				return t.SetTimer("quiet", t.StreamTime(), r.Value())
			case "wall":
				return t.SetWallTimer("late", at, r.Value())
			}
			if err := t.SetTimer("quiet", at, r.Value()); err != nil {
				return err
			}
			if string(r.Value()) == "bad" {
				return errors.New("bad record")
			}
			emit(r)
			return nil
		},
		OnTimer: func(t sdk.TimerCtx, _ noConfig, timer sdk.Timer, emit sdk.Emit) error {
			if string(timer.Data) == "poison" {
				return errors.New("bad timer")
			}
			out := sdk.NewRecord(timer.Key, fmt.Appendf(nil, "%s %s at %d", timer.Name, timer.Data,
				timer.At.UnixMilli()))
			emit(out)
			return nil
		},
	})
}

// timedLine is what goes in: a record of a key at a time, or a timer that the host says is due.
type timedLine struct {
	key, value string
	at         int64
	fired      string // name of the timer
}

func (l timedLine) record() pluginpb.Record {
	r := pluginpb.Record{}
	r.Key, r.Value, r.Timestamp = []byte(l.key), []byte(l.value), l.at
	r.Headers = []record.Header{{Key: pluginpb.HeaderTimerTime,
		Value: strconv.AppendInt(nil, l.at, 10)}}
	if l.fired != "" {
		r.Headers = []record.Header{{Key: pluginpb.HeaderTimerFired, Value: []byte(l.fired)},
			{Key: pluginpb.HeaderTimerClock, Value: []byte(pluginpb.ClockEvent)}}
	}
	return r
}

// sendTimed gives what comes of a batch, one line for each thing, after "i:" of what it came of.
func sendTimed(t *testing.T, part sdk.Part, now int64, lines ...timedLine) []string {
	t.Helper()
	client, err := sdk.Local(sdk.Plugin{Name: "p", Parts: []sdk.Part{part}})
	require.NoError(t, err)
	stream, err := client.Operate(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Open{
		Open: &pluginpb.Open{Credit: &pluginpb.Credit{Frames: 8, Bytes: 1 << 20}}}}))
	var batch []pluginpb.Record
	for _, l := range lines {
		batch = append(batch, l.record())
	}
	end := pluginpb.Record{}
	end.Headers = []record.Header{
		{Key: pluginpb.HeaderTimerTime, Value: strconv.AppendInt(nil, now, 10)},
		{Key: pluginpb.HeaderTimerClock, Value: []byte(pluginpb.ClockEvent)}}
	batch = append(batch, end)
	require.NoError(t, stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Batch{
		Batch: &pluginpb.Batch{Seq: 1, Frame: pluginpb.Encode(batch)}}}))
	for {
		m, err := stream.Recv()
		require.NoError(t, err)
		if f := m.GetFailure(); f != nil {
			return []string{"failed: " + f.Message}
		}
		if r := m.GetResult(); r != nil {
			return showTimed(t, r, len(batch))
		}
	}
}

func showTimed(t *testing.T, r *pluginpb.Result, n int) (out []string) {
	t.Helper()
	records, err := pluginpb.Decode(r.Frame)
	require.NoError(t, err)
	counts := r.Counts
	for len(counts) < n {
		counts = append(counts, 1)
	}
	for i, count := range counts {
		for _, one := range records[:count] {
			line := fmt.Sprintf("%d: %s=%s", i, one.Key, one.Value)
			for _, h := range one.Headers {
				line += fmt.Sprintf(" %s:%s", h.Key[len("ms-timer-"):], h.Value)
			}
			if _, set := one.Header(pluginpb.HeaderTimerSet); set {
				line += fmt.Sprintf(" @%d", one.Timestamp)
			}
			out = append(out, line)
		}
		records = records[count:]
		for _, e := range r.Errors {
			if int(e.Index) == i {
				out = append(out, fmt.Sprintf("%d: error %s", i, e.Message))
			}
		}
	}
	return out
}

// TestTimersOfABatchFireInIt: the timer of a, moved by its second record to 15, is due before the
// record at 20, and that of b, set for 30, is left to the host. By hand.
func TestTimersOfABatchFireInIt(t *testing.T) {
	require.Equal(t, []string{
		"0: a=one", "1: a=two", "2: a=quiet two at 15 of:15 clock:event", "2: b=three",
		"3: a= delete:quiet clock:event", "3: b=three set:quiet clock:event @30",
	}, sendTimed(t, alarm(), 20, timedLine{"a", "one", 1, ""}, timedLine{"a", "two", 5, ""},
		timedLine{"b", "three", 20, ""}))
}

// TestTimersOfTheHostGiveWayToTheBatch: what the host says is due was moved, or deleted, by a
// record before it; that of c was not, and comes behind that of b, which is due earlier.
func TestTimersOfTheHostGiveWayToTheBatch(t *testing.T) {
	require.Equal(t, []string{
		"0: a=moved", "3: b=quiet now at 12 of:12 clock:event",
		"3: c=quiet kept at 13 of:13 clock:event",
		"4: a=moved set:quiet clock:event @22", "4: b= delete:quiet clock:event",
		"4: c= delete:quiet clock:event",
	}, sendTimed(t, alarm(), 14, timedLine{"a", "moved", 12, ""},
		timedLine{"a", "old", 12, "quiet"}, timedLine{"b", "now", 12, ""},
		timedLine{"c", "kept", 13, "quiet"}))
}

// TestARecordThatFailsSetsNoTimer, and what timers gave before it stays.
func TestARecordThatFailsSetsNoTimer(t *testing.T) {
	require.Equal(t, []string{
		"0: a=one", "1: a=quiet one at 11 of:11 clock:event", "1: error bad record",
		"2: a= delete:quiet clock:event",
	}, sendTimed(t, alarm(), 20, timedLine{"a", "one", 1, ""}, timedLine{"b", "bad", 20, ""}))
}

// TestATimerThatFailsIsTold with its key and data, for the dead-letter topic.
func TestATimerThatFailsIsTold(t *testing.T) {
	require.Equal(t, []string{
		"0: a=poison of:5 clock:event failed:bad timer", "1: a= delete:quiet clock:event",
	}, sendTimed(t, alarm(), 5, timedLine{"a", "poison", 5, "quiet"}))
}

// TestWallTimersHaveToBeDeclared: they make the operator one that is not deterministic.
func TestWallTimersHaveToBeDeclared(t *testing.T) {
	require.Equal(t, []string{"0: error the part sets a timer of the machine's clock, but is not " +
		"WithWallTimers"}, sendTimed(t, alarm(), 1, timedLine{"a", "wall", 1, ""}))
	require.Equal(t, []string{"1: a=wall set:late clock:wall @11"},
		sendTimed(t, alarm().WithWallTimers(), 1, timedLine{"a", "wall", 1, ""}))
}
