package streamstest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
)

// setup is what the first line of a golden case asks for.
type setup struct {
	aggregate  aggregate.Options
	join       *join.Options // set for joins
	filter     int64         // records with a smaller or equal value are filtered out
	filtered   bool
	partitions int32
	disorder   int64
	closes     bool
	// One of these is set for another step than an aggregate or a join.
	dedupe    gate.DedupeOptions
	throttle  gate.ThrottleOptions
	punctuate time.Duration
}

func parseSetup(t *testing.T, d *datadriven.TestData) setup {
	s := setup{partitions: 1}
	fields := []aggregate.Field{{Name: "x"}}
	ms := func(a datadriven.CmdArg) time.Duration {
		n, err := strconv.Atoi(a.Vals[0])
		require.NoError(t, err)
		return time.Duration(n) * time.Millisecond
	}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "size", "session", "sliding", "count":
			s.aggregate.Windows = windowsOf(a.Key, ms(a), s.aggregate.Windows)
		case "advance":
			s.aggregate.Windows.Advance = ms(a).Milliseconds()
		case "offset":
			s.aggregate.Windows.Offset = ms(a).Milliseconds()
		case "grace":
			s.aggregate.Grace = ms(a)
		case "emit":
			if a.Vals[0] == "on_close" {
				s.aggregate.Emit = aggregate.OnClose
			}
		case "every":
			s.aggregate.Emit, s.aggregate.Every = aggregate.Every, ms(a)
		case "emit_unchanged":
			s.aggregate.SkipUnchanged = a.Vals[0] == "false"
		case "lateness":
			s.aggregate.Lateness = ms(a)
		case "within":
			s.dedupe = gate.DedupeOptions{Within: ms(a), Store: "rows", Key: byValue}
		case "rate":
			s.throttle = gate.ThrottleOptions{Count: ms(a).Milliseconds(), Per: 10 * time.Millisecond,
				Store: "rows", Key: gate.ByKey}
		case "punctuate":
			s.punctuate = ms(a)
		case "ttl":
			s.aggregate.Forget = ms(a)
		case "table":
			s.aggregate.Table = true
		case "agg":
			fields = fieldsOf(t, a.Vals)
		case "filter":
			s.filter, s.filtered = ms(a).Milliseconds(), true
		case "partitions":
			s.partitions = int32(ms(a).Milliseconds())
		case "disorder":
			s.disorder = ms(a).Milliseconds()
		case "on_end":
			s.closes = a.Vals[0] == "close"
		case "kind":
			s.join = &join.Options{Join: pair}
			if a.Vals[0] == "left" {
				s.join.Kind = join.Left
			}
		default:
			t.Fatalf("unknown argument %q", a.Key)
		}
	}
	s.aggregate.Fields = fields
	s.aggregate.Result = showResult
	s.aggregate.Store = "rows"
	s.aggregate.Late = operator.LatePolicy{Action: operator.LateSide, Topic: "late"}
	return s
}

// pair makes the value of a joined record what the golden files show.
func pair(rec *operator.Record, right any) error {
	r := "null"
	if b, ok := right.([]byte); ok {
		r = string(b)
	}
	rec.SetValue(fmt.Appendf(nil, "(%s,%s)@%d", rec.Value, r, rec.Timestamp))
	return nil
}

// keep is the filter of a case.
func (s *setup) keep(rec *operator.Record) (bool, error) {
	n, err := strconv.ParseInt(string(rec.Value), 10, 64)
	return n > s.filter, err
}

// parseLine reads "[p1: ]ts key[=value]" or "L ts key=value"; <null> is a null key, † a tombstone.
func parseLine(t *testing.T, line string) (side string, partition int32, r record.Record) {
	if rest, ok := strings.CutPrefix(line, "p"); ok {
		at := strings.Index(rest, ": ")
		require.Positive(t, at)
		p, err := strconv.Atoi(rest[:at])
		require.NoError(t, err)
		partition, line = int32(p), rest[at+2:]
	}
	if line[0] == 'L' || line[0] == 'R' {
		side, line = line[:1], line[2:]
	}
	ts, rest, ok := strings.Cut(line, " ")
	require.True(t, ok, line)
	n, err := strconv.ParseInt(ts, 10, 64)
	require.NoError(t, err)
	key, value, _ := strings.Cut(rest, "=")
	r = record.Record{Timestamp: n, Value: []byte(value)}
	if key != "<null>" {
		r.Key = []byte(key)
	}
	if value == "†" {
		r.Value = nil
	}
	return side, partition, r
}

// starts lists the windows of timestamps.
func starts(t *testing.T, d *datadriven.TestData) string {
	s := parseSetup(t, d)
	w := s.aggregate.Windows
	require.NoError(t, w.Validate())
	var out strings.Builder
	for _, line := range strings.Split(d.Input, "\n") {
		ts, err := strconv.ParseInt(line, 10, 64)
		require.NoError(t, err)
		fmt.Fprintf(&out, "%d =>", ts)
		first, last := w.Starts(ts)
		for start := first; start <= last; start += w.Advance {
			fmt.Fprintf(&out, " [%d,%d)", w.At(start).Start, w.At(start).End)
		}
		out.WriteString("\n")
	}
	return out.String()
}
