package server_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// metricsPage writes what /metrics tells of the broker.
func metricsPage(t testing.TB, c *coretest.Cluster) string {
	t.Helper()
	var text strings.Builder
	p := metrics.NewPage(&text)
	for _, s := range c.Broker().Metrics() {
		s.WriteMetrics(p)
	}
	require.NoError(t, p.Flush())
	return text.String()
}

func parseMetrics(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	return families
}

// scraped has the samples of a page as "name{label=value,...}"; histograms have _count and _sum.
type scraped map[string]float64

func scrape(t testing.TB, c *coretest.Cluster) scraped {
	t.Helper()
	s := scraped{}
	for name, f := range parseMetrics(t, metricsPage(t, c)) {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			at := "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.Histogram != nil:
				s[name+"_count"+at] = float64(m.Histogram.GetSampleCount())
				s[name+"_sum"+at] = m.Histogram.GetSampleSum()
			case m.Counter != nil:
				s[name+at] = m.Counter.GetValue()
			default:
				s[name+at] = m.Gauge.GetValue()
			}
		}
	}
	return s
}

// TestMetricsKeepPrometheusRules: names, units and helps pass the library's lint, each family of
// the page is a listed one, and none is listed twice.
func TestMetricsKeepPrometheusRules(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	families := parseMetrics(t, metricsPage(t, c))
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(
		func() (all []*dto.MetricFamily, err error) {
			for _, f := range families {
				all = append(all, f)
			}
			return all, nil
		}))
	require.NoError(t, err)
	require.Empty(t, problems)
	listed := map[string]*metrics.Family{}
	for _, s := range c.Broker().Metrics() {
		for _, f := range s.Families() {
			require.NotContains(t, listed, f.Name)
			require.True(t, strings.HasPrefix(f.Name, "millstream_"), f.Name)
			require.True(t, strings.HasSuffix(f.Help, "."), f.Name)
			listed[f.Name] = f
		}
	}
	for name := range families {
		require.Contains(t, listed, name)
	}
	for name := range listed {
		require.Contains(t, metricsPage(t, c), "# HELP "+name+" ", "listed, not written")
	}
}

// after asserts what changes by a step: each named sample by just that much.
type after struct {
	t *testing.T
	c *coretest.Cluster
	// seen are the names of families that some step has moved.
	seen map[string]bool
}

// settled is a page that has everything. Coordinators load one partition after the other, and on a
// busy machine some have no answer in time: what those know is not on the page.
func (a *after) settled() (s scraped) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		s = scrape(a.t, a.c)
		for sample, n := range s {
			if strings.HasPrefix(sample, "millstream_coordinator_partitions{") && n > 0 &&
				!strings.Contains(sample, "state=active") {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	return s
}

func (a *after) moves(what string, step func(), want map[string]float64) {
	a.t.Helper()
	before := a.settled()
	step()
	// What is counted when an answer has been written may come after the client has it.
	require.EventuallyWithT(a.t, func(t *assert.CollectT) {
		now := scrape(a.t, a.c)
		for sample, delta := range want {
			if assert.Contains(t, now, sample) {
				assert.InDelta(t, delta, now[sample]-before[sample], 1e-9, sample)
			}
		}
	}, time.Minute, time.Millisecond, what)
	for sample := range want {
		name, _, _ := strings.Cut(sample, "{")
		a.seen[strings.TrimSuffix(name, "_count")] = true
	}
}

// TestMetricsMoveWithWhatHappens gives each step its effect, worked out by hand. Sizes are those of
// the frames sent.
func TestMetricsMoveWithWhatHappens(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	a := &after{t: t, c: c, seen: map[string]bool{}}
	newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	records := batch(t, 3, record.BuilderOptions{})
	size := float64(len(records))
	produce := produceRequest(9, "t", [16]byte{}, 1, records)
	produceBytes := float64(len(frameOf(produce)) - 1) // wire has a shorter name
	a.moves("produce", func() { ask[*kmsg.ProduceResponse](w, produce) }, map[string]float64{
		`millstream_request_duration_seconds_count{api=Produce}`: 1,
		`millstream_request_local_seconds_count{api=Produce}`:    1,
		`millstream_request_response_seconds_count{api=Produce}`: 1,
		`millstream_request_bytes_total{api=Produce}`:            produceBytes,
		`millstream_network_bytes_total{direction=in}`:           produceBytes,
		// 4 size, 4 correlation, 1 tags; 1 topics, 2 "t", 1 partitions, 4 index, 2 code, 8 offset,
		// 8 time, 8 start, 1 record errors, 1 message, 3 tags; 4 throttle, 1 tags.
		`millstream_response_bytes_total{api=Produce}`:       52,
		`millstream_produced_bytes_total{topic=t}`:           size,
		`millstream_produced_bytes_total{topic=}`:            size,
		`millstream_produced_records_total{topic=t}`:         3,
		`millstream_produced_records_total{topic=}`:          3,
		`millstream_produces_total{topic=t}`:                 1,
		`millstream_log_end_offset{topic=t,partition=1}`:     3,
		`millstream_high_watermark{topic=t,partition=1}`:     3,
		`millstream_last_stable_offset{topic=t,partition=1}`: 3,
		`millstream_log_size_bytes{topic=t,partition=1}`:     size,
		`millstream_log_sync_seconds_count{directory=data}`:  1,
	})
	a.fetches(w, size)
	a.connections()
	a.topics(w)
	a.groups(w)
	a.transactions(w)
	for _, source := range c.Broker().Metrics() {
		for _, f := range source.Families() {
			why, excused := unmoved[f.Name]
			require.NotEqual(t, a.seen[f.Name], excused, "%s %s", f.Name, why)
		}
	}
}

// unmoved are the families that the steps do not move, with why.
var unmoved = map[string]string{
	"millstream_request_queue_seconds":              "only where requests wait for their turn",
	"millstream_slow_requests_total":                "TestSlowRequestsAreLogged",
	"millstream_request_panics_total":               "must not happen",
	"millstream_authentications_total":              "TestMetricsOfLogins",
	"millstream_denied_accesses_total":              "TestMetricsOfLogins",
	"millstream_connections_refused_total":          "TestMetricsOfLogins",
	"millstream_request_memory_bytes":               "only where a request is being read",
	"millstream_request_memory_limit_bytes":         "is what was set",
	"millstream_request_memory_waits_total":         "only where memory is used up",
	"millstream_request_memory_slow_closed_total":   "TestTricklersAreClosedWhenOthersWait",
	"millstream_fetch_sessions_evicted_total":       "of the cache's own tests",
	"millstream_limit_refusals_total":               "TestGroupsAreBounded and the like",
	"millstream_throttles_total":                    "TestKIP219_ProduceIsAnsweredAtOnceThenMuted",
	"millstream_throttle_seconds_total":             "TestKIP219_ProduceIsAnsweredAtOnceThenMuted",
	"millstream_quota_clients":                      "TestKIP219_ProduceIsAnsweredAtOnceThenMuted",
	"millstream_connections_muted":                  "TestMutedConnectionsEndWithTheBroker",
	"millstream_build_info":                         "is 1",
	"millstream_active_controller":                  "there is one node",
	"millstream_raft_term":                          "there is one node",
	"millstream_raft_elections_total":               "there is one node",
	"millstream_raft_snapshots_total":               "after many entries",
	"millstream_offline_partitions":                 "TestMetricsOfAFailedDisk",
	"millstream_offline_log_directories":            "TestMetricsOfAFailedDisk",
	"millstream_under_replicated_partitions":        "there is one node",
	"millstream_under_min_isr_partitions":           "there is one node",
	"millstream_at_min_isr_partitions":              "there is one node",
	"millstream_recovery_seconds":                   "is that of the start",
	"millstream_logs_recovered_total":               "TestMetricsOfRecovery",
	"millstream_disk_bytes":                         "is the disk's",
	"millstream_log_flush_queue":                    "is there for the time of a round",
	"millstream_checkpoint_errors_total":            "of storage's fault tests",
	"millstream_log_damages_total":                  "of storage's scrub tests",
	"millstream_log_scrubbed_bytes_total":           "of storage's scrub tests",
	"millstream_cleaner_runs_total":                 "compact.Stats has tests of its own",
	"millstream_cleaner_read_bytes_total":           "compact.Stats has tests of its own",
	"millstream_cleaner_replaced_bytes_total":       "compact.Stats has tests of its own",
	"millstream_cleaner_kept_bytes_total":           "compact.Stats has tests of its own",
	"millstream_cleaner_last_run_timestamp_seconds": "compact.Stats has tests of its own",
	"millstream_cleaner_max_dirty_ratio":            "compact.Stats has tests of its own",
	"millstream_cleaner_uncleanable":                "compact.Stats has tests of its own",
	"millstream_group_offsets_expired_total":        "group.TestKIP211_...",
	"millstream_metrics_omitted":                    "TestMetricsAreBounded",
	"millstream_oldest_open_transaction_seconds":    "asserted by itself",
}

// fetches reads the 3 records of t-1, and asks for what is not there.
func (a *after) fetches(w *wire, size float64) {
	a.moves("fetch", func() {
		ask[*kmsg.FetchResponse](w, fetchRequest(12, "t", [16]byte{}, 1, 0))
	}, map[string]float64{
		`millstream_request_duration_seconds_count{api=Fetch}`: 1,
		`millstream_fetched_bytes_total{topic=t}`:              size,
		`millstream_fetched_bytes_total{topic=}`:               size,
		`millstream_fetches_total{topic=t}`:                    1,
		`millstream_failed_fetches_total{topic=t}`:             0,
	})
	a.moves("fetch beyond the end", func() {
		ask[*kmsg.FetchResponse](w, fetchRequest(12, "t", [16]byte{}, 1, 99))
	}, map[string]float64{
		`millstream_request_errors_total{api=Fetch,error=OFFSET_OUT_OF_RANGE}`: 1,
		`millstream_failed_fetches_total{topic=t}`:                             1,
		`millstream_failed_fetches_total{topic=}`:                              1,
	})
	broken := batch(a.t, 1, record.BuilderOptions{})
	broken[len(broken)-1] ^= 1
	a.moves("produce with a wrong CRC", func() {
		ask[*kmsg.ProduceResponse](w, produceRequest(9, "t", [16]byte{}, 1, broken))
	}, map[string]float64{
		`millstream_request_errors_total{api=Produce,error=CORRUPT_MESSAGE}`: 1,
		`millstream_failed_produces_total{topic=t}`:                          1,
		`millstream_produced_bytes_total{topic=t}`:                           0,
	})
	long := fetchRequest(12, "t", [16]byte{}, 1, 3)
	long.MaxWaitMillis, long.SessionEpoch = 20_000, 0
	var id int32
	a.moves("long poll", func() { id = w.send(long) }, map[string]float64{
		`millstream_requests_waiting{api=Fetch}`: 1,
	})
	other := dial(a.t, a.c)
	a.moves("its end", func() {
		ask[*kmsg.ProduceResponse](other, produceRequest(9, "t", [16]byte{}, 1,
			batch(a.t, 1, record.BuilderOptions{})))
		w.receive(long, id)
	}, map[string]float64{
		`millstream_requests_waiting{api=Fetch}`:               -1,
		`millstream_request_wait_seconds_count{api=Fetch}`:     1,
		`millstream_fetch_sessions{}`:                          1,
		`millstream_fetch_session_partitions{}`:                1,
		`millstream_high_watermark{topic=t,partition=1}`:       1,
		`millstream_produced_records_total{topic=t}`:           1,
		`millstream_request_duration_seconds_count{api=Fetch}`: 1,
	})
}

// connections opens one that sends garbage.
func (a *after) connections() {
	var w *wire
	a.moves("a connection", func() { w = dial(a.t, a.c) }, map[string]float64{
		`millstream_connections{listener=PLAINTEXT}`:                1,
		`millstream_connections_accepted_total{listener=PLAINTEXT}`: 1,
	})
	a.moves("garbage", func() {
		_, err := w.c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(a.t, err)
		requireHangUp(a.t, w)
	}, map[string]float64{
		`millstream_connections{listener=PLAINTEXT}`: -1,
		`millstream_connections_broken_total{}`:      1,
	})
}

// topics makes one of three partitions, fills segments of one batch each, and deletes records.
func (a *after) topics(w *wire) {
	one := float64(oneBatch(a.t))
	a.moves("a topic", func() {
		newTopic(a.t, a.c, "s", 3, map[string]*string{"internal.segment.bytes": new("100"),
			"file.delete.delay.ms": new("60000")})
	}, map[string]float64{
		`millstream_topics{}`:                      1,
		`millstream_partitions{}`:                  3,
		`millstream_leader_partitions{}`:           3,
		`millstream_metadata_version{}`:            1,
		`millstream_raft_last_index{}`:             1,
		`millstream_raft_commit_index{}`:           1,
		`millstream_raft_applied_index{}`:          1,
		`millstream_raft_proposal_seconds_count{}`: 1,
	})
	a.moves("three batches", func() { fill(a.t, w, "s", 3) }, map[string]float64{
		`millstream_log_segments_rolled_total{directory=data}`: 2,
		`millstream_log_segments{topic=s,partition=0}`:         2,
		`millstream_log_size_bytes{topic=s,partition=0}`:       3 * one,
	})
	a.moves("deleted records", func() {
		ask[*kmsg.DeleteRecordsResponse](w, deleteRecordsRequest("s", 0, 2))
	}, map[string]float64{
		`millstream_log_start_offset{topic=s,partition=0}`:      2,
		`millstream_log_segments{topic=s,partition=0}`:          -2,
		`millstream_log_segments_deleted_total{directory=data}`: 2,
		`millstream_log_deleted_bytes_total{directory=data}`:    2 * one,
		// Of each segment the log, two indexes and, after the first one, the producers' snapshot.
		`millstream_log_removals_pending{directory=data}`: 7,
	})
}

// groups commits offset 1 of t-1, which ends at 4, and joins a group of the new protocol.
func (a *after) groups(w *wire) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(3)
	find.CoordinatorKey = "g"
	require.Zero(a.t, settled(w, func() int16 {
		return ask[*kmsg.FindCoordinatorResponse](w, find).ErrorCode
	}))
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.SetVersion(7)
	commit.Group, commit.Generation = "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset = 1, 1
	topic.Partitions = append(topic.Partitions, part)
	commit.Topics = append(commit.Topics, topic)
	require.Zero(a.t, settled(w, func() int16 {
		return ask[*kmsg.OffsetCommitResponse](w, commit).Topics[0].Partitions[0].ErrorCode
	}))
	active := `millstream_coordinator_partitions{coordinator=group,state=active}`
	require.Eventually(a.t, func() bool { return a.settled()[active] == 50 }, time.Minute,
		time.Millisecond, "not all coordinators have loaded")
	commit.Topics[0].Partitions[0].Offset = 2
	a.moves("a commit", func() { ask[*kmsg.OffsetCommitResponse](w, commit) }, map[string]float64{
		`millstream_group_offset_commits_total{}`:                        1,
		`millstream_group_committed_offset{group=g,topic=t,partition=1}`: 1,
		`millstream_group_lag{group=g,topic=t,partition=1}`:              -1,
		`millstream_group_topic_lag{group=g,topic=t}`:                    -1,
		`millstream_group_members{group=g}`:                              0,
		active:                                                           0,
	})
	now := a.settled()
	require.EqualValues(a.t, 2, now[`millstream_group_lag{group=g,topic=t,partition=1}`])
	require.EqualValues(a.t, 1, now[`millstream_groups{type=classic,state=Empty}`])
	join := consumerHeartbeat("c", "AAAAAAAAAAAAAAAAAAAAAA", 0, "t")
	join.SetVersion(1)
	require.Zero(a.t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, join).ErrorCode)
	join.MemberID = "BAAAAAAAAAAAAAAAAAAAAA"
	a.moves("a second member", func() { ask[*kmsg.ConsumerGroupHeartbeatResponse](w, join) },
		map[string]float64{
			`millstream_group_members{group=c}`: 1,
			`millstream_group_epoch{group=c}`:   1,
		})
	a.seen["millstream_groups"] = true
}

// transactions commits one and aborts one.
func (a *after) transactions(w *wire) {
	p := newTxnProducer(w, "id")
	a.moves("a transaction begins", func() { p.put("t", 0, 2) }, map[string]float64{
		`millstream_open_transactions{}`:                     1,
		`millstream_transactional_ids{state=Ongoing}`:        1,
		`millstream_transactional_ids{state=Empty}`:          -1,
		`millstream_producers{}`:                             1,
		`millstream_last_stable_offset{topic=t,partition=0}`: 0,
	})
	require.Positive(a.t, a.settled()[`millstream_oldest_open_transaction_seconds{}`])
	a.moves("it commits", func() { p.end(true, "t", 0, 3) }, map[string]float64{
		`millstream_open_transactions{}`:                     -1,
		`millstream_transactions_total{result=committed}`:    1,
		`millstream_last_stable_offset{topic=t,partition=0}`: 3,
	})
	p.put("t", 0, 1)
	a.moves("another aborts", func() { p.end(false, "t", 0, 5) }, map[string]float64{
		`millstream_transactions_total{result=aborted}`: 1,
	})
}

// TestMetricsOfLogins: one that is taken, one that is refused, and a connection over a limit.
func TestMetricsOfLogins(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured("max.connections", "2")})
	a := &after{t: t, c: c, seen: map[string]bool{}}
	dialAs(t, c, "admin", "a")
	logins := `millstream_request_duration_seconds_count{api=SASLAuthenticate}`
	require.Eventually(t, func() bool { return scrape(t, c)[logins] == 1 }, time.Minute,
		time.Millisecond, "the login before is counted")
	a.moves("a wrong password", func() {
		w := dialListener(t, c, "SASL_PLAINTEXT")
		handshake := kmsg.NewPtrSASLHandshakeRequest()
		handshake.Version, handshake.Mechanism = 1, "PLAIN"
		ask[*kmsg.SASLHandshakeResponse](w, handshake)
		token := kmsg.NewPtrSASLAuthenticateRequest()
		token.Version, token.SASLAuthBytes = 2, []byte("\x00admin\x00wrong")
		ask[*kmsg.SASLAuthenticateResponse](w, token)
		requireHangUp(t, w)
	}, map[string]float64{
		`millstream_authentications_total{result=failure}`:               1,
		`millstream_authentications_total{result=success}`:               0,
		`millstream_connections_accepted_total{listener=SASL_PLAINTEXT}`: 1,
		logins: 1,
		// The client has seen the end before the node counts it: the next step begins after that.
		`millstream_connections{listener=SASL_PLAINTEXT}`: 0,
	})
	require.EqualValues(t, 1, scrape(t, c)[`millstream_authentications_total{result=success}`])
	a.moves("no access", func() {
		w := dialAs(t, c, "alice", "b")
		ask[*kmsg.ProduceResponse](w, produceRequest(9, "t", [16]byte{}, 0, nil))
		_ = w.c.Close()
	}, map[string]float64{
		`millstream_denied_accesses_total{}`:                                            1,
		`millstream_request_errors_total{api=Produce,error=TOPIC_AUTHORIZATION_FAILED}`: 1,
		`millstream_connections{listener=SASL_PLAINTEXT}`:                               0,
	})
	a.moves("too many", func() {
		dialListener(t, c, "SASL_PLAINTEXT")
		requireHangUp(t, dialListener(t, c, "SASL_PLAINTEXT"))
	}, map[string]float64{`millstream_connections{listener=SASL_PLAINTEXT}`: 1})
	refused := `millstream_connections_refused_total{limit=max.connections}`
	require.EqualValues(t, 1, scrape(t, c)[refused])
}

// TestMetricsOfRecovery: after a power cut both logs are read again, after a clean end none.
func TestMetricsOfRecovery(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 2, nil)
	recovered := `millstream_logs_recovered_total{directory=data}`
	c.Restart()
	require.Zero(t, scrape(t, c)[recovered])
	c.Crash()
	require.EqualValues(t, 2, scrape(t, c)[recovered])
}

// TestMetricsOfAFailedDisk: a sync that fails takes the directory and its partitions down.
func TestMetricsOfAFailedDisk(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	a := &after{t: t, c: c, seen: map[string]bool{}}
	disk.Inject(vfs.Rule{Op: vfs.OpSync, Path: "t-0/", Err: syscall.EIO})
	a.moves("a sync fails", func() {
		w.send(produceRequest(9, "t", [16]byte{}, 0, batch(t, 1, record.BuilderOptions{})))
	}, map[string]float64{
		`millstream_offline_log_directories{}`: 1,
		`millstream_offline_partitions{}`:      2,
	})
}
