package windows_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/command"
	"github.com/millstream-io/millstream/core"
)

// TestMain serves connectors when the pipeline under test starts this binary again as their
// process.
func TestMain(m *testing.M) {
	if command.IsConnectorProcess(os.Args) {
		os.Exit(command.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// event is a line of any of the files.
type event struct {
	User, Page, ID, Order, City string
	EUR                         int
	At                          time.Time
}

// read gives the events of a file by time.
func read(t *testing.T, name string) (events []event) {
	t.Helper()
	text, err := os.ReadFile("data/" + name + ".ndjson")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var e event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.At.Compare(b.At) })
	return events
}

func by(events []event, key func(event) string) map[string][]event {
	out := map[string][]event{}
	for _, e := range events {
		out[key(e)] = append(out[key(e)], e)
	}
	return out
}

func user(e event) string { return e.User }

func stamp(t time.Time) string {
	text, _ := json.Marshal(t.UTC())
	return string(text)
}

// visits cuts the views of each user where more than half an hour lies between two.
func visits(views []event) (rows []string) {
	for u, list := range by(views, user) {
		for from := 0; from < len(list); {
			to := from + 1
			for to < len(list) && list[to].At.Sub(list[to-1].At) <= 30*time.Minute {
				to++
			}
			rows = append(rows, fmt.Sprintf(
				`{"user":%q,"from":%s,"to":%s,"views":%d,"entry":%q,"exit":%q}`, u,
				stamp(list[from].At), stamp(list[to-1].At), to-from, list[from].Page,
				list[to-1].Page))
			from = to
		}
	}
	return rows
}

// pages counts the views of each page in each hour that begins at a quarter.
func pages(views []event) (rows []string) {
	for page, list := range by(views, func(e event) string { return e.Page }) {
		count, users := map[time.Time]int{}, map[time.Time]map[string]bool{}
		for _, e := range list {
			for start := e.At.Truncate(15 * time.Minute); e.At.Sub(start) < time.Hour; {
				count[start]++
				if users[start] == nil {
					users[start] = map[string]bool{}
				}
				users[start][e.User] = true
				start = start.Add(-15 * time.Minute)
			}
		}
		for start, n := range count {
			rows = append(rows, fmt.Sprintf(`{"page":%q,"from":%s,"to":%s,"views":%d,"users":%d}`,
				page, stamp(start), stamp(start.Add(time.Hour)), n, len(users[start])))
		}
	}
	return rows
}

// bursts looks at the ten minutes up to each order, and at those that begin right behind it.
func bursts(orders []event) (rows []string) {
	const span = 10 * time.Minute
	for u, list := range by(orders, user) {
		seen := map[time.Time]bool{}
		for _, e := range list {
			for _, start := range []time.Time{e.At.Add(-span), e.At.Add(time.Millisecond)} {
				n, eur := 0, 0
				for _, x := range list {
					if d := x.At.Sub(start); d >= 0 && d <= span {
						n, eur = n+1, eur+x.EUR
					}
				}
				if n < 3 || seen[start] {
					continue
				}
				seen[start] = true
				rows = append(rows, fmt.Sprintf(
					`{"user":%q,"from":%s,"to":%s,"orders":%d,"eur":%d}`, u, stamp(start),
					stamp(start.Add(span)), n, eur))
			}
		}
	}
	return rows
}

// settled pairs orders with payments that came within an hour.
func settled(orders, payments []event) (paid, unpaid []string) {
	of := by(payments, func(e event) string { return e.Order })
	for _, o := range orders {
		found := false
		for _, p := range of[o.ID] {
			if d := p.At.Sub(o.At); d >= 0 && d <= time.Hour {
				found = true
				paid = append(paid, fmt.Sprintf(`{"order":%q,"eur":%d,"paid_at":%s}`, o.ID, o.EUR,
					stamp(p.At)))
			}
		}
		if !found {
			unpaid = append(unpaid, fmt.Sprintf(`{"order":%q,"eur":%d,"user":%q}`, o.ID, o.EUR,
				o.User))
		}
	}
	return paid, unpaid
}

// cities adds up what the users who live there at last have bought.
func cities(orders, users []event) map[string]string {
	lives := map[string]string{}
	for _, u := range users {
		lives[u.ID] = u.City
	}
	rows := map[string]string{}
	for city, list := range by(orders, func(e event) string { return lives[e.User] }) {
		sum, most := 0, 0
		for _, o := range list {
			sum, most = sum+o.EUR, max(most, o.EUR)
		}
		rows[city] = fmt.Sprintf(`{"orders":%d,"eur":%d,"largest":%d}`, len(list), sum, most)
	}
	return rows
}

// run runs the example as a user does and returns what its topics hold.
func run(t *testing.T, topics ...string) (map[string][]*kgo.Record, string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	exit := command.Run(ctx, []string{"dev", ".", "--until-done", "--data-dir", dir, "--listen",
		"127.0.0.1:0", "--http", "127.0.0.1:0"},
		command.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	require.Zero(t, exit, "%s", stderr.String())
	broker, err := core.Open(ctx, core.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close(ctx)) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.ConsumeTopics(topics...),
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return broker.Dial(ctx)
		}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	require.NoError(t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	require.NoError(t, err)
	left, records := map[string]int64{}, map[string][]*kgo.Record{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[fmt.Sprint(o.Topic, o.Partition)] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			at := fmt.Sprint(r.Topic, r.Partition)
			if r.Offset >= left[at]-1 {
				delete(left, at)
			}
			if !r.Attrs.IsControl() {
				records[r.Topic] = append(records[r.Topic], r)
			}
		})
	}
	return records, stderr.String()
}

// TestResultsAreThoseOfAPlainCalculation compares every topic with what the files come to.
func TestResultsAreThoseOfAPlainCalculation(t *testing.T) {
	got, said := run(t, "visits", "pages", "bursts", "paid", "unpaid", "cities", "windows.dlq")
	require.Contains(t, said, "0 late, 0 dead-lettered")
	views, orders := read(t, "views"), read(t, "orders")
	paid, unpaid := settled(orders, read(t, "payments"))
	for topic, want := range map[string][]string{"visits": visits(views), "pages": pages(views),
		"bursts": bursts(orders), "paid": paid, "unpaid": unpaid} {
		var have []string
		for _, r := range got[topic] {
			have = append(have, string(r.Value))
		}
		require.NotEmpty(t, want, topic)
		require.ElementsMatch(t, want, have, topic)
	}
	last, moved := map[string]string{}, 0
	for _, r := range got["cities"] {
		if last[string(r.Key)] > string(r.Value) {
			moved++
		}
		last[string(r.Key)] = string(r.Value)
	}
	require.Equal(t, cities(orders, read(t, "users")), last)
	require.NotZero(t, moved, "somebody moved and took orders along")
}
