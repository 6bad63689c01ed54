package flights_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The calculation here knows nothing of the product: it reads the raw files and follows the rules
// as the README states them, so that the pipeline's results have something independent to equal.

// flight is one line of the flights file.
type flight struct {
	ID          int64     `json:"id"`
	At          time.Time `json:"at"`
	Origin      string    `json:"origin"`
	Destination string    `json:"destination"`
	Delay       int64     `json:"delay"`
	Distance    int64     `json:"distance"`
}

// dayRow is one line of results: a state's flights of one day.
type dayRow struct {
	State       string  `json:"state"`
	WindowStart string  `json:"window_start"`
	WindowEnd   string  `json:"window_end"`
	Flights     int64   `json:"flights"`
	Late        int64   `json:"late"`
	AvgDelay    float64 `json:"avg_delay"`
	MaxDelay    int64   `json:"max_delay"`
}

// expectation is what one run over the two files must give.
type expectation struct {
	days           map[string]dayRow // by state and window start
	veryLate       map[int64]bool    // ids of flights more than 60 minutes late
	unknownOrigins map[int64]bool    // ids of flights whose origin is not an airport
	lateRecords    int               // records whose window was closed when they came
}

func readFlights(t *testing.T, path string) []flight {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var all []flight
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var f flight
		require.NoError(t, json.Unmarshal(lines.Bytes(), &f))
		all = append(all, f)
	}
	require.NoError(t, lines.Err())
	return all
}

// readStates gives the state of each airport. encoding/csv takes CRLF line ends and quoted commas.
func readStates(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"iata", "name", "city", "state"}, rows[0][:4])
	states := make(map[string]string, len(rows))
	for _, row := range rows[1:] {
		states[row[0]] = row[3]
	}
	return states
}

const day = 24 * time.Hour

// expect calculates the results. Lateness follows the rule that a record is late if and only if its
// partition has seen, up to and including that record, an event time that reaches the window's end
// plus the grace period; a flight with an unknown origin moves time although it is not counted.
func expect(
	flights []flight, states map[string]string, partitions int, grace time.Duration,
) expectation {
	e := expectation{days: map[string]dayRow{}, veryLate: map[int64]bool{},
		unknownOrigins: map[int64]bool{}}
	sums := map[string]int64{}
	seen := make([]time.Time, partitions)
	for _, f := range flights {
		p := partitionOf(f.Origin, partitions)
		if f.At.After(seen[p]) {
			seen[p] = f.At
		}
		state, known := states[f.Origin]
		if !known {
			e.unknownOrigins[f.ID] = true
			continue
		}
		if f.Delay > 60 {
			e.veryLate[f.ID] = true
		}
		start := f.At.Truncate(day)
		end := start.Add(day)
		if !seen[p].Before(end.Add(grace)) {
			e.lateRecords++
			continue
		}
		key := state + " " + start.Format(time.RFC3339)
		row, ok := e.days[key]
		if !ok {
			row = dayRow{State: state, WindowStart: start.Format(time.RFC3339),
				WindowEnd: end.Format(time.RFC3339), MaxDelay: f.Delay}
		}
		row.Flights++
		if f.Delay > 15 {
			row.Late++
		}
		row.MaxDelay = max(row.MaxDelay, f.Delay)
		sums[key] += f.Delay
		row.AvgDelay = float64(sums[key]) / float64(row.Flights)
		e.days[key] = row
	}
	return e
}

// partitionOf is the Java client's default partitioner: murmur2 of the key, positive, modulo.
func partitionOf(key string, partitions int) int {
	return int(murmur2([]byte(key))&0x7fffffff) % partitions
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed that Kafka uses.
func murmur2(data []byte) uint32 {
	const m, r = uint32(0x5bd1e995), 24
	h := uint32(0x9747b28c) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// TestMurmur2 checks the hash against values of the Java client's own unit test
// (org.apache.kafka.common.utils.UtilsTest.testMurmur2).
func TestMurmur2(t *testing.T) {
	for text, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2([]byte(text))), text)
	}
}

// TestExpectationAddsUp guards the calculation itself: every flight is counted once.
func TestExpectationAddsUp(t *testing.T) {
	flights := readFlights(t, "data/flights-arrival-order.jsonl")
	states := readStates(t, "data/airports.csv")
	for _, grace := range []time.Duration{0, day, 100 * day} {
		e := expect(flights, states, 6, grace)
		counted := int64(0)
		for _, row := range e.days {
			counted += row.Flights
		}
		require.EqualValues(t, len(flights), counted+int64(e.lateRecords+len(e.unknownOrigins)),
			strconv.Itoa(int(grace/day))+" days of grace")
	}
}
