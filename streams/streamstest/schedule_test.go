package streamstest_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

var (
	seedsFlag = flag.Int("seeds", 0, "schedules of TestAnyScheduleGivesTheSameBytes; 0 is 200")
	firstSeed = flag.Int("first-seed", 0, "the first of them")
)

// fed is one record of an input.
type fed struct {
	topic     string
	partition int32
	record    record.Record
}

// deterministic is a pipeline whose output is a function of its input.
type deterministic struct {
	name       string
	build      func() *topology.Builder
	partitions map[string]int32
	// tables are there before anything runs: rows count from when they come.
	tables, input []fed
	outputs       map[string]int32
}

// deterministics are the pipelines every schedule is tried on. To put another one under the test,
// add it here.
func deterministics() []deterministic {
	stages := deterministic{name: "two stages", build: twoStages,
		partitions: map[string]int32{"flights": flightPartitions, "airports": 2, "totals": 2},
		outputs:    map[string]int32{"totals": 2, "dlq": 1, "late": 1}}
	for i := range 30 {
		origin := fmt.Sprintf("A%02d", i)
		stages.tables = append(stages.tables, fed{"airports",
			record.PartitionForKey([]byte(origin), 2),
			record.Record{Key: []byte(origin), Value: []byte(stateOf(origin))}})
	}
	for _, f := range flights(300, rand.New(rand.NewPCG(9, 1))) {
		stages.input = append(stages.input, fed{"flights",
			record.PartitionForKey([]byte(f.origin), flightPartitions),
			record.Record{Key: []byte(f.origin), Value: fmt.Append(nil, f.delay), Timestamp: f.at}})
	}
	return append([]deterministic{stages, {name: "everything", build: everything,
		partitions: map[string]int32{"a": 2, "b": 2}, input: everythingInput(),
		outputs: map[string]int32{"out": 1, "end": 1, "dlq": 1}}}, scheduled()...)
}

// singlePass runs the pipeline once, undisturbed.
func (p *deterministic) singlePass(t *testing.T) map[string][]string {
	d, err := streamstest.New(p.build(), streamstest.Options{Partitions: p.partitions})
	require.NoError(t, err)
	for _, f := range slices.Concat(p.tables, p.input) {
		d.Feed(f.topic, f.partition, f.record)
	}
	d.EndOfInput()
	require.NoError(t, d.Run())
	require.True(t, d.Done())
	return lanesIn(t, d.Log, p.outputs)
}

// TestAnyScheduleGivesTheSameBytes draws schedules from seeds: one to three workers come and go,
// stopped or killed, with their files or without; answers to commits are lost, transactions time
// out, polls are small, fetches and appends are throttled, the clock jumps by hours. The bytes of
// every lane of every output are those of a single pass.
func TestAnyScheduleGivesTheSameBytes(t *testing.T) {
	seeds := *seedsFlag
	if seeds == 0 {
		seeds = 200
	}
	if testing.Short() {
		seeds = min(seeds, 20)
	}
	all := deterministics()
	for i := range all {
		p := &all[i]
		want := p.singlePass(t)
		t.Run(p.name, func(t *testing.T) {
			for seed := *firstSeed + i; seed < *firstSeed+seeds; seed += len(all) {
				synctest.Test(t, func(t *testing.T) { p.schedule(t, uint64(seed), want) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// schedule is one run by a seed.
type schedule struct {
	t   *testing.T
	rnd *rand.Rand
	ws  *streamstest.Workers
	// names of the workers that run, and how they share.
	names   []string
	share   task.Share
	faults  sync.Mutex
	chance  *rand.Rand // of the faults, which come from many goroutines
	trouble bool
	// throttle is the longest a fetch or an append takes, 0 for no time.
	throttle time.Duration
}

var errLostAnswer = errors.New("answer lost")

func (p *deterministic) schedule(t *testing.T, seed uint64, want map[string][]string) {
	s := &schedule{t: t, rnd: rand.New(rand.NewPCG(seed, 21)), chance: rand.New(rand.NewPCG(seed, 22)),
		trouble: true}
	ws, err := streamstest.NewLog(p.build(), t.TempDir(), streamstest.Options{
		Partitions: p.partitions})
	require.NoError(t, err)
	s.ws = ws
	t.Cleanup(func() { _ = ws.Stop(true) })
	s.share.Standby = s.rnd.IntN(2)
	ws.Log.SetMaxPoll(1 + s.rnd.IntN(60))
	s.throttle = time.Duration(max(0, s.rnd.IntN(90)-30)) * time.Millisecond
	ws.Log.SetFaults(s.slow, s.lose)
	ws.Tune = func(o *task.Options) {
		o.CommitInterval = time.Duration(1+s.rnd.IntN(300)) * time.Millisecond
		o.CommitBytes = 200 + s.rnd.Int64N(1<<20)
		o.InboxBytes = 200 + s.rnd.Int64N(1<<20)
	}
	s.feed(p.tables)
	for range 1 + s.rnd.IntN(3) {
		s.join()
	}
	for left := p.input; len(left) > 0; {
		n := min(len(left), 1+s.rnd.IntN(50))
		s.feed(left[:n])
		left = left[n:]
		s.disturb()
	}
	require.NoError(t, ws.EndOfInput())
	for range s.rnd.IntN(4) {
		s.disturb()
	}
	s.faults.Lock()
	s.trouble = false
	s.faults.Unlock()
	if len(s.names) == 0 {
		s.join()
	}
	for i := 0; !ws.Done(); i++ {
		require.NoError(t, ws.Err())
		if i == 600 {
			t.Fatalf("seed %d: not done:\n%s", seed, phases(ws))
		}
		time.Sleep(time.Second)
	}
	require.NoError(t, ws.Stop(false))
	requireSame(t, want, lanesIn(t, ws.Partition, p.outputs), fmt.Sprint("seed ", seed))
}

// slow makes some requests take their time, as quotas and busy brokers do.
func (s *schedule) slow(op client.Op) error {
	if s.throttle == 0 || op.Kind != "poll" && op.Kind != "append" {
		return nil
	}
	s.faults.Lock()
	pause := time.Duration(0)
	if s.trouble && s.chance.IntN(4) == 0 {
		pause = time.Duration(s.chance.Int64N(int64(s.throttle)))
	}
	s.faults.Unlock()
	time.Sleep(pause)
	return nil
}

// lose makes the answers to some commits get lost.
func (s *schedule) lose(op client.Op) error {
	s.faults.Lock()
	defer s.faults.Unlock()
	if s.trouble && op.Kind == "end" && s.chance.IntN(20) == 0 {
		return errLostAnswer
	}
	return nil
}

func (s *schedule) feed(list []fed) {
	for _, f := range list {
		require.NoError(s.t, s.ws.Feed(f.topic, f.partition, f.record))
	}
}

// join starts a worker of a name that is free, with the files of the last one of that name.
func (s *schedule) join() {
	for i := range 3 {
		name := fmt.Sprint("w", i)
		if slices.Contains(s.names, name) {
			continue
		}
		s.names = append(s.names, name)
		share := s.share
		if s.rnd.IntN(2) == 0 {
			share.Instance = name
		}
		require.NoError(s.t, s.ws.Join(name, share))
		return
	}
}

// disturb does something, or lets time pass, or neither.
func (s *schedule) disturb() {
	switch s.rnd.IntN(10) {
	case 0, 1:
		time.Sleep(time.Duration(s.rnd.IntN(500)) * time.Millisecond)
	case 2:
		time.Sleep(time.Duration(s.rnd.IntN(180)) * time.Minute)
	case 3, 4:
		s.end(true)
	case 5:
		s.end(false)
	case 6, 7:
		s.join()
	case 8:
		s.ws.Log.Expire()
	}
}

// end ends a worker; its tasks go to the others, or wait for the next.
func (s *schedule) end(kill bool) {
	if len(s.names) == 0 {
		return
	}
	i := s.rnd.IntN(len(s.names))
	require.NoError(s.t, s.ws.Stop(kill, s.names[i]))
	s.names = slices.Delete(s.names, i, i+1)
}

// phases says in a line per worker and task what it does.
func phases(ws *streamstest.Workers) string {
	text := ""
	for name, st := range ws.Status() {
		for _, t := range st.Tasks {
			text += fmt.Sprintf("%s %s %s %s\n", name, t.Name, t.Phase, t.LastError)
		}
	}
	return text
}
