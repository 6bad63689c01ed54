package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/replay"
)

// verdict is what replay verify prints.
type verifyVerdict struct {
	OK      bool
	Summary string
	Result  replay.Report
}

func TestReplayGivesTheSameBytes(t *testing.T) {
	c := server(t)
	applied(t, c, "live", 100, 50)
	r := c.run("replay", "run", "live", "--from", "start", "--as", "live-again", "--wait", "-o", "json")
	require.Zero(t, r.exit, r.err)
	started := decode[startedReplay](t, r.out)
	require.Equal(t, int64(100), started.Records)
	require.Equal(t, "live", started.Of)
	require.Equal(t, "done", started.State)
	require.Equal(t, []replay.Pair{{Sink: "evens", Live: "live-out", Shadow: "live-again.live-out"}},
		started.Outputs)
	require.Contains(t, c.ok("replay", "status", "live-again"), "state     done")
	require.Contains(t, c.ok("replay", "verify", "live-again"), "50 compared")
	v := decode[verifyVerdict](t, c.ok("replay", "verify", "live-again", "-o", "json"))
	require.True(t, v.OK)

	// Slowly: half a second for 100 records, and the same.
	began := time.Now()
	c.ok("replay", "run", "live", "--rate", "200", "--as", "live-slowly", "--wait")
	require.GreaterOrEqual(t, time.Since(began), 450*time.Millisecond)
	v = decode[verifyVerdict](t, c.ok("replay", "verify", "live-slowly", "-o", "json"))
	require.True(t, v.OK)

	// Part of the inputs: the live records before and behind it are counted, not missed.
	c.ok("replay", "run", "live", "--from", "20", "--to", "40", "--as", "live-part", "--wait")
	part := decode[verifyVerdict](t, c.ok("replay", "verify", "live-part", "-o", "json"))
	require.True(t, part.OK)
	require.Equal(t, int64(10), part.Result.Outputs[0].Compared)
	require.Equal(t, int64(10), part.Result.Outputs[0].Before)
	require.Equal(t, int64(30), part.Result.Outputs[0].After)
}

// TestReplayOfAResetPipelineReadsItsDecisions: those about idle inputs are in a topic of the
// generation that runs, not of the first one.
func TestReplayOfAResetPipelineReadsItsDecisions(t *testing.T) {
	require.Equal(t, "live.2", replayOf(deploy.Revision{Name: "live", Generation: 2}, "again").App)
	require.Empty(t, replayOf(deploy.Revision{Name: "live"}, "again").App)
}

// TestReplayVerifyNamesTheFirstDifference writes to the shadow what no pipeline would: exit 4, with
// the record.
func TestReplayVerifyNamesTheFirstDifference(t *testing.T) {
	c := server(t)
	applied(t, c, "base", 20, 10)
	for _, name := range []string{"base-more", "base-less", "base-other"} {
		c.ok("replay", "run", "base", "--from", "start", "--as", name, "--wait")
	}
	shadow := func(name string) string { return name + ".base-out" }
	rewrite := func(name string, change func([]*kgo.Record) []*kgo.Record) {
		t.Helper()
		records := c.records(shadow(name), 10)
		c.ok("topic", "delete", shadow(name), "--yes")
		c.ok("topic", "create", shadow(name), "-p", "1")
		require.NoError(t, c.kafka().ProduceSync(t.Context(), change(records)...).FirstErr())
	}
	rewrite("base-less", func(r []*kgo.Record) []*kgo.Record { return append(r[:3], r[4:]...) })
	rewrite("base-other", func(r []*kgo.Record) []*kgo.Record {
		r[5].Value = []byte(`{"n":10,"twice":21}`)
		return r
	})
	c.feed("{}\n", "produce", shadow("base-more"))

	for name, want := range map[string]struct {
		reason, live, shadow string
	}{
		"base-less":  {"the records differ", `{"n":6,"twice":12}`, `{"n":8,"twice":16}`},
		"base-other": {"the records differ", `{"n":10,"twice":20}`, `{"n":10,"twice":21}`},
	} {
		r := c.run("replay", "verify", name, "-o", "json")
		require.Equal(t, 4, r.exit, name)
		v := decode[verifyVerdict](t, r.out)
		require.False(t, v.OK)
		d := v.Result.FirstDifference
		require.NotNil(t, d, name)
		require.Equal(t, want.reason, d.Reason, name)
		if want.live != "" {
			require.Equal(t, want.live, d.LiveAt.Value, name)
		}
		require.Equal(t, want.shadow, d.ShadowAt.Value, name)

		text := c.run("replay", "verify", name)
		require.Equal(t, 4, text.exit)
		require.Contains(t, text.out, "DIFFERENT", name)
		require.Contains(t, text.out, "first difference, partition 0: "+want.reason, name)
		require.Contains(t, text.out, want.shadow, name)
	}

	// What the live pipeline may still come to is no difference, and has an exit code of its own.
	r := c.run("replay", "verify", "base-more", "-o", "json")
	require.Equal(t, 6, r.exit, r.err)
	v := decode[verifyVerdict](t, r.out)
	require.False(t, v.OK)
	require.Nil(t, v.Result.FirstDifference)
	require.True(t, v.Result.EqualSoFar)
	require.EqualValues(t, 1, v.Result.Outputs[0].ToCome)
	require.EqualValues(t, 10, v.Result.Outputs[0].Compared)
	require.Equal(t, "{}", v.Result.FirstToCome.ShadowAt.Value)
	text := c.run("replay", "verify", "base-more")
	require.Equal(t, 6, text.exit)
	require.NotContains(t, text.out, "DIFFERENT")
	require.Contains(t, text.out, "10 compared, 1 to come")
	require.Contains(t, text.out, "equal so far; partition 0: the live output has not come to this "+
		"record.\n")
}

// records reads n records of a topic of one partition, ready to be written again.
func (c cli) records(topic string, n int) []*kgo.Record {
	c.t.Helper()
	reader := c.kafka(kgo.ConsumeTopics(topic))
	var all []*kgo.Record
	for len(all) < n {
		all = append(all, reader.PollFetches(c.t.Context()).Records()...)
	}
	return all
}

func TestReplayRefusesWhatItCannotDo(t *testing.T) {
	c := server(t)
	applied(t, c, "once", 4, 2)
	c.ok("replay", "run", "once", "--as", "once-again", "--wait")
	for _, test := range []struct {
		args string
		exit int
		want string
	}{
		{"replay run once --as once-again", 5, "error[NAME_TAKEN]"},
		{"replay run once --as once", 5, "error[NAME_TAKEN]"},
		{"replay run onec --as x", 1, `did you mean "once"?`},
		{"replay run once --as Bad/Name", 2, "error[BAD_NAME]"},
		{"replay run once-again --as third", 2, "is a replay itself"},
		{"replay run once --as x --from soon", 2, "error[BAD_RANGE]"},
		{"replay run once --as x --rate -1", 2, "--rate -1 is below 0"},
		{"replay verify once", 2, "error[NOT_A_REPLAY]"},
		{"replay verify nothing-like-it-here", 1, "error[UNKNOWN_PIPELINE]"},
	} {
		r := c.run(strings.Fields(test.args)...)
		require.Equal(t, test.exit, r.exit, "%s: %s", test.args, r.err)
		require.Contains(t, r.err, test.want, test.args)
	}
	_, err := kadm.NewClient(c.kafka()).ListTopics(t.Context())
	require.NoError(t, err)
}

// TestReplayThatIsNotDoneIsNotVerified: without a worker it never is.
func TestReplayThatIsNotDoneIsNotVerified(t *testing.T) {
	c := startBroker(t, nil)
	file := writeFile(t, t.TempDir()+"/pipeline.yaml", doubled("waits"))
	c.ok("topic", "create", "waits-in", "waits-out", "-p", "1")
	c.ok("pipeline", "apply", file, "--no-wait")
	c.ok("replay", "run", "waits", "--as", "waits-again")
	r := c.run("replay", "verify", "waits-again")
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[REPLAY_NOT_DONE]")
	require.Contains(t, r.err, "no worker has taken it")
}
