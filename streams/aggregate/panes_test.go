package aggregate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/window"
)

// sketches are all functions that come to the same bytes in any order, and, if whole, one that does
// not and is left out of the result: windows then have rows of their own.
func sketches(whole bool) (list []aggregate.Field, result func(*operator.Record,
	[]aggregate.Value) error) {
	value := fields()[1].Value
	list = []aggregate.Field{{Name: "n"}, {Name: "some", Func: aggregate.Count, Value: value},
		{Name: "different", Func: aggregate.ApproxDistinct, Value: value},
		{Name: "p50", Func: aggregate.Quantile, PerMille: 500, Value: value}}
	if whole {
		list = append(list, aggregate.Field{Name: "order", Func: aggregate.Last, ByOffset: true,
			Value: value})
	}
	return list, func(rec *operator.Record, values []aggregate.Value) error {
		b := fmt.Appendf(nil, "[%d,%d)", rec.Window.Start, rec.Window.End)
		for _, v := range values[:4] {
			b = v.AppendJSON(append(b, ' '))
		}
		rec.SetValue(b)
		return nil
	}
}

// TestPanesGiveTheBytesOfWindows: hopping windows on close, put together from panes, and windows
// with rows of their own give the same bytes, dead letters and late records, with crashes.
func TestPanesGiveTheBytesOfWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(2, 24).Draw(t, "size")
		o := aggregate.Options{Emit: aggregate.OnClose, Windows: window.Windows{Size: size,
			Advance: rapid.Int64Range(1, size-1).Draw(t, "advance"),
			Offset:  rapid.Int64Range(-30, 30).Draw(t, "offset")},
			Grace: time.Duration(rapid.Int64Range(0, 15).Draw(t, "grace")) * time.Millisecond}
		var runs [2]*streamstest.Driver
		for i := range runs {
			o.Fields, o.Result = sketches(i == 1)
			runs[i] = start(t, o)
		}
		now := int64(0)
		crash := rapid.Bool().Draw(t, "crash")
		for range rapid.IntRange(1, 60).Draw(t, "records") {
			now += rapid.Int64Range(0, 12).Draw(t, "step")
			x := record.Record{Key: []byte(rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "key")),
				Timestamp: max(0, now-rapid.Int64Range(0, 40).Draw(t, "back")),
				Value:     fmt.Append(nil, rapid.Int64Range(-9, 99).Draw(t, "value"))}
			if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
				x.Value = []byte("no number")
			}
			run := rapid.Bool().Draw(t, "run")
			for _, d := range runs {
				d.Feed("in", 0, x)
				if !run {
					continue
				}
				require.NoError(t, d.Run())
				if crash {
					require.NoError(t, d.Crash())
				}
			}
		}
		for _, d := range runs {
			d.Feed("in", 0, record.Record{Key: []byte("z"), Timestamp: now + 1000, Value: []byte("1")})
			require.NoError(t, d.Run())
		}
		for _, topic := range []string{"out", "late", "dlq"} {
			require.Equal(t, texts(runs[1].Output(topic)), texts(runs[0].Output(topic)), topic)
		}
	})
}

// TestPanesOfManyKeys: a window of more rows than are put together at once is whole, too.
func TestPanesOfManyKeys(t *testing.T) {
	o := aggregate.Options{Emit: aggregate.OnClose, Windows: window.Windows{Size: 30, Advance: 10}}
	var runs [2]*streamstest.Driver
	for i := range runs {
		o.Fields, o.Result = sketches(i == 1)
		runs[i] = start(t, o)
	}
	const keys = 9000 // of 250 bytes, so that the windows have up to 7 MB
	for i := range 2 * keys {
		x := record.Record{Key: fmt.Appendf(nil, "%0250d", i*7919%keys), Timestamp: int64(i / 450),
			Value: fmt.Append(nil, i%13)}
		for _, d := range runs {
			d.Feed("in", 0, x)
		}
	}
	for _, d := range runs {
		d.Feed("in", 0, record.Record{Key: []byte("z"), Timestamp: 1000, Value: []byte("1")})
		require.NoError(t, d.Run())
	}
	want := texts(runs[1].Output("out"))
	require.Greater(t, len(want), 3*keys)
	require.Equal(t, want, texts(runs[0].Output("out")))
}

func texts[R fmt.Stringer](list []R) (all []string) {
	for _, r := range list {
		all = append(all, r.String())
	}
	return all
}

// TestWhatHasAnOrderHasNoPanes: the format of the rows tells.
func TestWhatHasAnOrderHasNoPanes(t *testing.T) {
	hop := window.Windows{Size: 60, Advance: 7}
	for i, tc := range []struct {
		o     aggregate.Options
		panes bool
	}{
		{aggregate.Options{Windows: window.Windows{Size: 60, Advance: 10}, Emit: aggregate.OnClose},
			true},
		{aggregate.Options{Windows: window.Windows{Size: 60, Advance: 10}}, false},
		{aggregate.Options{Windows: window.Windows{Size: 60, Advance: 60}, Emit: aggregate.OnClose},
			false},
		{aggregate.Options{Windows: hop, Emit: aggregate.OnClose}, false}, // 60 panes for 9 windows
		{aggregate.Options{Windows: window.Windows{Size: 60, Advance: 10}, Emit: aggregate.OnClose,
			Lateness: time.Second}, false},
	} {
		tc.o.Fields = fields()[:1]
		require.Equal(t, tc.panes, paned(tc.o), i)
		tc.o.Fields = fields()[:2] // a sum may overflow, or be rounded
		require.False(t, paned(tc.o), i)
	}
}

func paned(o aggregate.Options) bool {
	var size, advance, offset, pane int64
	n, _ := fmt.Sscanf(o.Stores()[0].Format, "aggregate 1 %d/%d+%d panes %d", &size, &advance, &offset,
		&pane)
	return n == 4
}

// BenchmarkHopping counts in windows that overlap sixfold, of 1,000 keys with 10 records a pane.
func BenchmarkHopping(b *testing.B) {
	for name, whole := range map[string]bool{"panes": false, "windows": true} {
		b.Run(name, func(b *testing.B) {
			o := aggregate.Options{Windows: window.Windows{Size: 60_000, Advance: 10_000},
				Emit: aggregate.OnClose, Store: "rows", Fields: []aggregate.Field{{Name: "n"}}}
			if whole {
				o.Fields = append(o.Fields, fields()[1])
				o.Fields[1].Value = func(*operator.Record) (aggregate.Value, error) {
					return aggregate.IntValue(1), nil
				}
			}
			db, err := state.Open(state.Options{})
			require.NoError(b, err)
			op := aggregate.New(o)()
			ctx := operator.NewContext(operator.ContextOptions{Step: "agg", Stores: db,
				StreamTime: operator.NoTime})
			var in, out operator.Batch
			now, n := int64(0), 0
			for b.Loop() {
				in.Reset()
				out.Reset()
				for range 1024 {
					now++
					n++
					in.StreamTime = now
					in.Records = append(in.Records, operator.Record{Timestamp: now, StreamTime: now,
						Key: fmt.Appendf(nil, "key-%06d", n*7919%1000), Value: []byte{}})
				}
				require.NoError(b, op.Process(ctx, &in, &out))
				if n%(64*1024) == 0 {
					require.NoError(b, db.Commit(time.Unix(1, 0), state.Meta{}))
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
