package flights_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/command"
	"github.com/millstream-io/millstream/core"
)

// asProcess makes this binary the product's: the crash tests start it so and kill it.
const asProcess = "FLIGHTS_TEST_AS_MILLSTREAM"

// TestMain serves connectors when the pipeline under test starts this binary again as their
// process.
func TestMain(m *testing.M) {
	if command.IsConnectorProcess(os.Args) || os.Getenv(asProcess) != "" {
		os.Exit(command.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// partitions of the topic flights, as pipeline.yaml says.
const partitions = 6

// run is one run of the pipeline in a folder of its own.
type run struct {
	t       *testing.T
	dataDir string
	out     string
}

// runFlights runs `millstream dev --until-done` on a pipeline file.
func runFlights(t *testing.T, pipeline string, vars ...string) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{t: t, dataDir: filepath.Join(dir, "data"), out: filepath.Join(dir, "delays.ndjson")}
	args := []string{"dev", pipeline, "--until-done", "--data-dir", r.dataDir,
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--var", "out=" + r.out}
	for _, v := range vars {
		args = append(args, "--var", v)
	}
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	streams := command.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
	exit := command.Run(ctx, args, streams)
	require.Zero(t, exit, "%s", stderr.String())
	require.NotEmpty(t, stdout.String(), "rows are printed as they come out")
	return r
}

// rows are the lines of the sink file by state and window start; a line that comes twice fails.
func (r *run) rows() map[string]dayRow {
	r.t.Helper()
	file, err := os.Open(r.out)
	require.NoError(r.t, err)
	defer file.Close()
	rows := map[string]dayRow{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		addRow(r.t, rows, lines.Bytes())
	}
	require.NoError(r.t, lines.Err())
	return rows
}

func addRow(t *testing.T, rows map[string]dayRow, line []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var row dayRow
	require.NoError(t, decoder.Decode(&row), "%s", line)
	key := row.State + " " + row.WindowStart
	require.NotContains(t, rows, key, "a window comes out once")
	rows[key] = row
}

// topics reads topics of the data directory of a run that has ended.
func (r *run) topics(names ...string) map[string][]*kgo.Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	broker, err := core.Open(ctx, core.Options{DataDir: r.dataDir, Listen: "127.0.0.1:0"})
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, broker.Close(ctx)) }()
	dial := kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return broker.Dial(ctx)
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), dial, kgo.ConsumeTopics(names...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	require.NoError(r.t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, names...)
	require.NoError(r.t, err)
	records := map[string][]*kgo.Record{}
	for unread(ends) {
		fetches := client.PollFetches(ctx)
		require.NoError(r.t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) {
			if end := ends[rec.Topic][rec.Partition]; rec.Offset >= end.Offset-1 {
				delete(ends[rec.Topic], rec.Partition)
			}
			if !rec.Attrs.IsControl() {
				records[rec.Topic] = append(records[rec.Topic], rec)
			}
		})
	}
	return records
}

// unread reports whether a partition that has records is not read to its end. Offsets do not count
// records: the markers of transactions have some too.
func unread(ends kadm.ListedOffsets) bool {
	for _, partitions := range ends {
		for _, end := range partitions {
			if end.Offset > 0 {
				return true
			}
		}
	}
	return false
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func ids(t *testing.T, records []*kgo.Record) map[int64]bool {
	t.Helper()
	found := map[int64]bool{}
	for _, r := range records {
		var f flight
		require.NoError(t, json.Unmarshal(r.Value, &f))
		require.False(t, found[f.ID], "flight %d comes twice in %s", f.ID, r.Topic)
		found[f.ID] = true
	}
	return found
}

func TestSortedFileGivesTheCalculatedResults(t *testing.T) {
	r := runFlights(t, ".")
	want := expect(readFlights(t, "data/flights.jsonl"), readStates(t, "data/airports.csv"),
		partitions, 0)
	require.Zero(t, want.lateRecords, "the file is sorted")
	require.Equal(t, want.days, r.rows())

	topics := r.topics("delays-by-state", "very-late", "flights.dlq", "flights", "airports")
	rows := map[string]dayRow{}
	for _, rec := range topics["delays-by-state"] {
		addRow(t, rows, rec.Value)
	}
	require.Equal(t, want.days, rows, "the topic has what the file has")
	require.Equal(t, want.veryLate, ids(t, topics["very-late"]))
	require.Contains(t, string(topics["very-late"][0].Value), `"status":"very-late"`)
	require.Empty(t, topics["flights.dlq"])
	require.Len(t, topics["flights"], 20000)
	require.Len(t, topics["airports"], 3376)
	for _, rec := range topics["flights"] {
		require.Equal(t, int32(partitionOf(string(rec.Key), partitions)), rec.Partition,
			"keys go where any Kafka client would send them")
	}
}

func TestUnknownOriginsGoToTheDeadLetterTopic(t *testing.T) {
	const removed = "LAX" // busy enough to matter
	airports := filepath.Join(t.TempDir(), "airports.csv")
	text, err := os.ReadFile("data/airports.csv")
	require.NoError(t, err)
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, removed+",") {
			kept = append(kept, line)
		}
	}
	require.NoError(t, os.WriteFile(airports, []byte(strings.Join(kept, "")), 0o644))

	r := runFlights(t, ".", "airports="+airports)
	want := expect(readFlights(t, "data/flights.jsonl"), readStates(t, airports), partitions, 0)
	require.NotEmpty(t, want.unknownOrigins)
	require.Equal(t, want.days, r.rows())
	topics := r.topics("flights.dlq", "very-late")
	require.Equal(t, want.veryLate, ids(t, topics["very-late"]))
	require.Equal(t, want.unknownOrigins, ids(t, topics["flights.dlq"]))
	for _, rec := range topics["flights.dlq"] {
		require.Equal(t, "join_missing", header(rec, "ms-dlq-class"))
		require.Contains(t, header(rec, "ms-dlq-error"), removed)
		require.Equal(t, "located", header(rec, "ms-dlq-step"))
		require.Equal(t, "flights", header(rec, "ms-dlq-topic"))
		require.NotEmpty(t, header(rec, "ms-dlq-offset"))
	}
}

// TestOutOfOrderFileFollowsTheRuleOfLateness runs the file in the order of publication. Which
// records are late depends on their partition's past alone, so the numbers can be calculated
// beforehand.
func TestOutOfOrderFileFollowsTheRuleOfLateness(t *testing.T) {
	text, err := os.ReadFile("pipeline.yaml")
	require.NoError(t, err)
	plugin, err := filepath.Abs("plugins/punctuality")
	require.NoError(t, err)
	flights, err := filepath.Abs("data/flights-arrival-order.jsonl")
	require.NoError(t, err)
	airports, err := filepath.Abs("data/airports.csv")
	require.NoError(t, err)
	all, states := readFlights(t, flights), readStates(t, airports)
	for _, days := range []int{0, 7, 60} {
		t.Run(fmt.Sprintf("grace of %d days", days), func(t *testing.T) {
			grace := time.Duration(days) * day
			changed := strings.Replace(string(text), "late: dlq\n",
				fmt.Sprintf("grace: %dd\n      late: dlq\n", days), 1)
			changed = strings.Replace(changed, "./plugins/punctuality", plugin, 1)
			file := filepath.Join(t.TempDir(), "pipeline.yaml")
			require.NoError(t, os.WriteFile(file, []byte(changed), 0o644))

			r := runFlights(t, file, "flights="+flights, "airports="+airports)
			want := expect(all, states, partitions, grace)
			require.Equal(t, want.days, r.rows())
			topics := r.topics("flights.dlq", "very-late")
			require.Len(t, topics["flights.dlq"], want.lateRecords)
			require.Equal(t, want.veryLate, ids(t, topics["very-late"]), "late is not lost elsewhere")
			for _, rec := range topics["flights.dlq"] {
				require.Equal(t, "late", header(rec, "ms-dlq-class"))
			}
			t.Logf("%d late records", want.lateRecords)
		})
	}
}
