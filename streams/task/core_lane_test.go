package task

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
)

// The header is written to topics that outlive the program.
func TestLaneBytes(t *testing.T) {
	require.Equal(t, []byte("\x00"+"\x00\x00\x00\x00\x00\x00\x01\x02"+
		"\x00\x00\x00\x00\x00\x00\x00\x2a"+"app.sub.3"),
		AppendLane(nil, Lane{Writer: "app.sub.3", Seq: 258, W: 42}))
	require.Equal(t, []byte("\x07"+"\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x80\x00\x00\x00\x00\x00\x00\x00"+"w"),
		AppendLane(nil, Lane{Writer: "w", W: math.MinInt64, Control: true, Ended: true, Idle: true}))
}

func TestLaneRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Lane{Writer: rapid.String().Draw(t, "writer"), Seq: rapid.Int64().Draw(t, "seq"),
			W: rapid.Int64().Draw(t, "w"), Control: rapid.Bool().Draw(t, "control"),
			Ended: rapid.Bool().Draw(t, "ended"), Idle: rapid.Bool().Draw(t, "idle")}
		got, err := ParseLane(AppendLane([]byte("before"), l)[len("before"):])
		require.NoError(t, err)
		require.Equal(t, l, got)
	})
}

func FuzzParseLane(f *testing.F) {
	f.Add(AppendLane(nil, Lane{Writer: "app.sub.3", Seq: 258, W: 42}))
	f.Add(AppendLane(nil, Lane{Control: true, Ended: true}))
	f.Add([]byte{})
	f.Add([]byte("\x08abcdefghabcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLane(b)
		if err != nil {
			require.ErrorIs(t, err, ErrLane)
			return
		}
		require.Equal(t, b, AppendLane(nil, l))
	})
}

// TestALaneThatIsNeverEmptyKeepsOnlyWhatWaits: what was taken from the front makes room.
func TestALaneThatIsNeverEmptyKeepsOnlyWhatWaits(t *testing.T) {
	c, l := &Core{}, &lane{in: &coreInput{}}
	recs := make([]record.Record, 10)
	for range 10_000 {
		for i := range recs {
			recs[i].Offset++
			c.enqueue(l, item{rec: &recs[i]})
		}
		for l.pending() > 5 {
			l.take(&held{})
		}
	}
	require.LessOrEqual(t, cap(l.queue), 64)
	require.Equal(t, 5, l.pending())
}
