package runner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// TestBrokerIsGoneForAWhile: the broker is away until the pipeline has said so, and comes back. The
// pipeline goes on by itself, and each record counts once.
func TestBrokerIsGoneForAWhile(t *testing.T) {
	r := newRig(t)
	r.topic("in", 2)
	s := r.start(sums)
	r.produce("in", `a={"n":1}`)
	s.await("out", `a={"s":2}`)
	for i := range 2 {
		r.produce("in", `a={"n":0}`)
		r.cluster.Stop()
		before := strings.Count(r.log.String(), "level=WARN")
		s.until("it says so", func() bool {
			return strings.Count(r.log.String(), "level=WARN") > before
		})
		require.Contains(t, []deploy.State{deploy.Running, deploy.Degraded}, s.in.Status().State)
		r.cluster.Start()
		s.until("it goes on", func() bool {
			all := r.values("out")
			return all[len(all)-1] == fmt.Sprintf(`a={"s":%d}`, 3+i)
		})
	}
	s.halt()
	require.Equal(t, []string{`a={"s":2}`, `a={"s":3}`, `a={"s":4}`}, r.values("out"))
}

// TestBrokerIsGoneForTenMinutes: a whole pipeline without its broker for ten minutes, under the
// clock of the test. The status says so after a few seconds: degraded, since when, why and what to
// do. When the broker is back it is running again, by itself, and each record counts once; so it is
// for one that was caught idle and one that was caught with records on their way.
func TestBrokerIsGoneForTenMinutes(t *testing.T) {
	for _, idle := range []bool{true, false} {
		t.Run(fmt.Sprint("idle=", idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.topic("in", 2)
				s := r.start(sums)
				r.produce("in", `a={"n":1}`)
				s.await("out", `a={"s":2}`)
				require.Equal(t, deploy.Running, s.in.Status().State)
				if !idle {
					r.produce("in", `a={"n":0}`)
				}
				r.cluster.Stop()
				gone := time.Now()
				time.Sleep(10 * time.Second)
				for time.Since(gone) < 10*time.Minute {
					st := s.in.Status()
					require.Equal(t, deploy.Degraded, st.State, "after %v", time.Since(gone))
					require.WithinDuration(t, gone, st.Trouble.Since, 2*time.Second)
					require.Contains(t, st.Trouble.Error, "connect to ")
					require.Contains(t, st.Trouble.Do, "goes on by itself")
					time.Sleep(10 * time.Second)
				}
				r.cluster.Start()
				back := time.Now()
				s.until("it runs", func() bool { return s.in.Status().State == deploy.Running })
				require.Less(t, time.Since(back), 20*time.Second)
				require.Nil(t, s.in.Status().Trouble)
				if idle {
					r.produce("in", `a={"n":0}`)
				}
				s.await("out", `a={"s":2}`, `a={"s":3}`)
				s.halt()
				require.Equal(t, []string{`a={"s":2}`, `a={"s":3}`}, r.values("out"))
			})
		})
	}
}

// TestTransactionOfATaskIsTaken: the log gives the transactional id of a task to somebody else, as
// when its transaction times out. The task opens again at its last commit, by itself.
func TestTransactionOfATaskIsTaken(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	s := r.start(sums)
	var want []string
	for i := range 5 {
		r.produce("in", `a={"n":0}`)
		want = append(want, fmt.Sprintf(`a={"s":%d}`, i+1))
		s.await("out", want...)
		req := kmsg.NewInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr("p.in.0")
		req.TransactionTimeoutMillis = 10_000
		s.until("it is taken", func() bool { // its last transaction may be about to end
			resp, err := req.RequestWith(r.ctx(), r.client)
			require.NoError(t, err)
			return resp.ErrorCode == 0
		})
	}
	s.until("it says so", func() bool { return strings.Contains(r.log.String(), "task lost") })
	require.Contains(t, r.log.String(), "task=p.in.0")
	require.Equal(t, deploy.Running, s.in.Status().State)
}

// TestInputIsMadeAgain: positions in the topic that was deleted mean nothing in the new one. The
// pipeline ends with the task, the topic and the offset, and with the command that goes on.
func TestInputIsMadeAgain(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	s := r.start(sums)
	r.produce("in", `a={"n":1}`, `a={"n":1}`)
	s.await("out", `a={"s":2}`, `a={"s":4}`)
	s.halt()
	admin := kadm.NewClient(r.client)
	_, err := admin.DeleteTopic(r.ctx(), "in")
	require.NoError(t, err)
	r.topic("in", 1)
	fresh := r.connect(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	defer fresh.Close()
	require.NoError(t, fresh.ProduceSync(r.ctx(), &kgo.Record{Topic: "in", Key: []byte("a"),
		Value: []byte(`{"n":100}`)}).FirstErr())
	s = r.start(sums)
	err = s.wait()
	for _, part := range []string{"task p.in.0", "topic in was deleted and made again",
		"in-0 offset 2", "millstream pipeline reset p --to start"} {
		require.ErrorContains(t, err, part)
	}
	require.NotErrorIs(t, err, deploy.ErrTemporary)
	require.Len(t, r.read("out"), 2)
}

// TestOutputTopicRefuses: the topic takes no record of the size of a result. The error names the
// task, the partition and the reason; nothing behind the last commit counts, and when the topic
// takes it, it comes once.
func TestOutputTopicRefuses(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	admin := kadm.NewClient(r.client)
	_, err := admin.CreateTopic(r.ctx(), 1, 1,
		map[string]*string{"max.message.bytes": kadm.StringPtr("300")}, "out")
	require.NoError(t, err)
	yaml := strings.Replace(sums, "{s: {sum: value.n}}", "{s: {sum: value.n}, l: {last: value.p}}", 1)
	yaml = strings.Replace(yaml, "map: {n: value.n + 1}", "set: {n: value.n + 1}", 1)
	s := r.start(yaml)
	r.produce("in", `a={"n":1,"p":"short"}`)
	s.await("out", `a={"s":2,"l":"short"}`)
	r.produce("in", fmt.Sprintf(`a={"n":1,"p":%q}`, strings.Repeat("long", 500)))
	err = s.wait()
	require.ErrorContains(t, err, "task p.in.0")
	require.ErrorContains(t, err, "out-0")
	require.Len(t, r.read("out"), 1)
	_, err = admin.AlterTopicConfigs(r.ctx(), []kadm.AlterConfig{{Op: kadm.SetConfig,
		Name: "max.message.bytes", Value: kadm.StringPtr("1000000")}}, "out")
	require.NoError(t, err)
	s = r.start(yaml)
	s.until("it goes on", func() bool { return len(r.read("out")) == 2 })
}

// TestSecondWorkerOnAStateDirectory: the one that comes second waits, and then says who has the
// files; the first goes on.
func TestSecondWorkerOnAStateDirectory(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	first := r.start(sums)
	r.produce("in", `a={"n":1}`)
	first.await("out", `a={"s":2}`)
	second := r.start(sums) // another process would be told the same
	err := second.wait()
	for _, part := range []string{"task p.in.0", "state file is in use", "is held by process",
		"stop that one first"} {
		require.ErrorContains(t, err, part)
	}
	r.produce("in", `a={"n":1}`)
	first.await("out", `a={"s":2}`, `a={"s":4}`)
}
