package flights_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// windowsPipeline counts flights per origin by day, by week every day, and by session.
const windowsPipeline = `version: 1
pipeline: windows
vars: {out: unused}
sources:
  flights:
    connector: file
    config: {path: '%[1]s', format: ndjson}
    topic: flights
    partitions: %[2]d
    key: value.origin
    event_time: parse_time(value.at, "rfc3339")
on_end: close
steps:
  - id: days
    from: flights
    aggregate:
      window: {tumbling: 1d}
      grace: %[4]s
      emit: on_close
      late: drop
      fields: {n: count}
  - id: day-rows
    map: {of: key, start: window.start, end: window.end, n: value.n}
  - id: weeks
    from: flights
    aggregate:
      window: {hopping: {size: 7d, every: 1d}}
      grace: %[4]s
      emit: on_close
      late: drop
      fields: {n: count}
  - id: week-rows
    map: {of: key, start: window.start, end: window.end, n: value.n}
  - id: sessions
    from: flights
    aggregate:
      window: {session: 12h}
      grace: %[4]s
      emit: on_close
      late: drop
      fields: {n: count}
  - id: session-rows
    map: {of: key, start: window.start, end: window.end, n: value.n}
sinks:
  printed: {from: day-rows, topic: printed}
  days: {from: day-rows, connector: file, config: {path: '%[3]s/days', format: ndjson}}
  weeks: {from: week-rows, connector: file, config: {path: '%[3]s/weeks', format: ndjson}}
  sessions:
    from: session-rows
    connector: file
    config: {path: '%[3]s/sessions', format: ndjson}
`

const (
	week = 7 * day
	gap  = 12 * time.Hour
)

// span is a result: the flights of an origin in a window.
type span struct {
	Of    string    `json:"of"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	N     int       `json:"n"`
}

// String is a line to compare.
func (s span) String() string {
	start, end := s.Start.Format(time.RFC3339), s.End.Format(time.RFC3339)
	return fmt.Sprintf("%s %s %s %d", s.Of, start, end, s.N)
}

// aligned counts in windows of a size that start every so often. A flight is late for a window iff
// its partition has reached the end of the window plus the grace.
func aligned(flights []flight, size, every, grace time.Duration) (lines []string, late int) {
	counts := map[span]int{}
	var seen [partitions]time.Time
	for _, f := range flights {
		now := &seen[partitionOf(f.Origin, partitions)]
		if f.At.After(*now) {
			*now = f.At
		}
		for start := f.At.Truncate(every); start.Add(size).After(f.At); start = start.Add(-every) {
			w := span{Of: f.Origin, Start: start, End: start.Add(size)}
			if now.Before(w.End.Add(grace)) {
				counts[w]++
			} else {
				late++
			}
		}
	}
	for w, n := range counts {
		w.N = n
		lines = append(lines, w.String())
	}
	slices.Sort(lines)
	return lines, late
}

// sessions counts in sessions. One is closed when its partition is beyond its end by more than gap
// and grace; a flight whose own session would be closed is late, and what is closed stays so.
func sessions(flights []flight, grace time.Duration) (lines []string, late int) {
	open := map[string][]span{} // of an origin
	var seen [partitions]time.Time
	closed := func(end, now time.Time) bool { return now.After(end.Add(gap + grace)) }
	for _, f := range flights {
		now := &seen[partitionOf(f.Origin, partitions)]
		if f.At.After(*now) {
			*now = f.At
		}
		if closed(f.At, *now) {
			late++
			continue
		}
		merged, rest := span{Of: f.Origin, Start: f.At, End: f.At, N: 1}, []span(nil)
		for _, s := range open[f.Origin] {
			switch {
			case closed(s.End, *now):
				lines = append(lines, s.String())
			case f.At.Sub(s.End) > gap || s.Start.Sub(f.At) > gap:
				rest = append(rest, s)
			default:
				merged.N += s.N
				if s.Start.Before(merged.Start) {
					merged.Start = s.Start
				}
				if s.End.After(merged.End) {
					merged.End = s.End
				}
			}
		}
		open[f.Origin] = append(rest, merged)
	}
	for _, list := range open {
		for _, s := range list {
			lines = append(lines, s.String())
		}
	}
	slices.Sort(lines)
	return lines, late
}

func readSpans(t *testing.T, path string) (lines []string) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for rows := bufio.NewScanner(file); rows.Scan(); {
		var s span
		require.NoError(t, json.Unmarshal(rows.Bytes(), &s), "%s", rows.Bytes())
		lines = append(lines, s.String())
	}
	slices.Sort(lines)
	return lines
}

// TestWindowsGiveTheCalculatedResults: daily, hopping and session counts of the sorted file and of
// the file in the order of publication, with and without grace, against the calculations above.
func TestWindowsGiveTheCalculatedResults(t *testing.T) {
	for _, file := range []string{"flights.jsonl", "flights-arrival-order.jsonl"} {
		for _, grace := range []time.Duration{0, 2 * day, 60 * day} {
			t.Run(fmt.Sprint(file, " grace ", grace), func(t *testing.T) {
				input, err := filepath.Abs("data/" + file)
				require.NoError(t, err)
				dir := t.TempDir()
				path := filepath.Join(dir, "pipeline.yaml")
				text := fmt.Sprintf(windowsPipeline, input, partitions, dir,
					fmt.Sprint(int(grace.Hours()), "h"))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
				runFlights(t, path)

				flights := readFlights(t, "data/"+file)
				days, lateDays := aligned(flights, day, day, grace)
				weeks, _ := aligned(flights, week, day, grace)
				lines, lateSessions := sessions(flights, grace)
				if file == "flights.jsonl" {
					require.Zero(t, lateDays+lateSessions, "the file is sorted")
				} else if grace < 60*day {
					require.Greater(t, lateDays, 1000)
					require.Greater(t, lateSessions, 1000)
				}
				require.Equal(t, days, readSpans(t, filepath.Join(dir, "days")))
				require.Equal(t, weeks, readSpans(t, filepath.Join(dir, "weeks")))
				require.Equal(t, lines, readSpans(t, filepath.Join(dir, "sessions")))
			})
		}
	}
}
