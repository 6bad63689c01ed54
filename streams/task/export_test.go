package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/topology"
)

// exported takes an export of the rides pipeline and opens it.
func exported(t *testing.T, m *client.Memory, app string) ([]byte, *StateExport) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Export(t.Context(), ExportOptions{Cluster: m,
		Topology: ridePipelineAs(t, m, app), About: json.RawMessage(`{"who":"test"}`),
		Dir: t.TempDir()}, &b))
	x, err := OpenExport(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.Equal(t, app, x.App)
	require.JSONEq(t, `{"who":"test"}`, string(x.About))
	return b.Bytes(), x
}

func rideOptionsAs(t *testing.T, m client.Cluster, app string) Options {
	o := rideOptions(t, m, t.TempDir())
	o.Topology = ridePipelineAs(t, m, app)
	return o
}

// lanesBy are the lanes of the writers of an app, without its name.
func lanesBy(lanes map[string][]string, app string) map[string][]string {
	out := map[string][]string{}
	for name, records := range lanes {
		if strings.Contains(name, " by "+app+".") {
			out[strings.Replace(name, " by "+app+".", " by ", 1)] = records
		}
	}
	return out
}

// feedRides appends rides while a pipeline runs.
func feedRides(t *testing.T, m *client.Memory, list []ride) {
	for _, r := range list {
		require.NoError(t, m.Append(client.TopicPartition{Topic: "rides", Partition: partitionOf(r)},
			record.Record{Key: []byte(r.city), Value: fmt.Append(nil, r.len), Timestamp: r.at}))
	}
}

// TestForkGoesOnLikeTheLiveRun exports the state of a pipeline of two stages in the midst of its
// work, and lets another one begin with it. What the fork puts out is, lane by lane, what the live
// one puts out after its commits in the export, with the same sequences; a replay of everything
// from nothing gives the same. What was under way between the stages is neither lost nor doubled.
func TestForkGoesOnLikeTheLiveRun(t *testing.T) {
	underWay := int64(0)
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 77))
		list := rides(1500, seed)
		m := rideLog(t, list[:300])
		m.SetMaxPoll(1 + rnd.IntN(40))
		ctx, stop := context.WithCancel(t.Context())
		o := rideOptionsAs(t, m, "rides")
		o.Bounded, o.batch = false, 1+rnd.IntN(40)
		w, err := NewWorker(o)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		cut := 300 + rnd.IntN(600)
		feedRides(t, m, list[300:cut])
		require.Eventually(t, func() bool {
			return len(m.Records(client.TopicPartition{Topic: "totals"})) > 0
		}, time.Minute, time.Millisecond)
		fed := make(chan bool)
		go func() {
			defer close(fed)
			feedRides(t, m, list[cut:])
		}()
		_, x := exported(t, m, "rides")
		underWay += x.Records
		<-fed
		stop()
		require.NoError(t, <-ended)
		_, err = runWorker(t.Context(), t, rideOptionsAs(t, m, "rides"))
		require.NoError(t, err)

		fork := rideOptionsAs(t, m, "fork")
		require.NoError(t, Import(t.Context(), ImportOptions{Cluster: m, Topology: fork.Topology}, x))
		fork.batch = 1 + rnd.IntN(40)
		_, err = runWorker(t.Context(), t, fork)
		require.NoError(t, err)
		_, err = runWorker(t.Context(), t, rideOptionsAs(t, m, "full"))
		require.NoError(t, err)

		all := lanesOf(t, m, rideTopics)
		live := lanesBy(all, "rides")
		requireLanes(t, live, lanesBy(all, "full"))
		requireLanes(t, behind(t, x, live), lanesBy(all, "fork"))
	}
	require.Positive(t, underWay, "some export caught records between the stages")
}

// behind are the records of lanes that their writers had not written at their commits in an export.
func behind(t *testing.T, x *StateExport, lanes map[string][]string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for i := range x.header.Tasks {
		task := &x.header.Tasks[i]
		_, s, err := task.decode()
		require.NoError(t, err)
		for name, records := range lanes {
			if !strings.HasSuffix(name, " by "+topology.Writer("", task.Sub, task.Partition)[1:]) {
				continue
			}
			for _, r := range records {
				var seq int64
				_, err := fmt.Sscan(r, &seq)
				require.NoError(t, err)
				if s == nil || seq > s.Seq {
					out[name] = append(out[name], r)
				}
			}
		}
	}
	return out
}

// stopped is a log with a pipeline that has processed its input and waits for more.
func stopped(t *testing.T) *client.Memory {
	t.Helper()
	list := rides(400, 3)
	m := rideLog(t, list)
	o := rideOptionsAs(t, m, "rides")
	o.Bounded = false
	w, err := NewWorker(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	require.Eventually(t, func() bool {
		n := int64(0)
		for _, task := range w.Status().Tasks {
			if task.Phase != Running || task.LastCommit.IsZero() {
				return false
			}
			for _, in := range task.Inputs {
				if in.Topic == "rides" {
					n += in.Position
				}
			}
		}
		return n == int64(len(list))
	}, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	return m
}

// TestExportIsTheSameAfterAnImport: rows, positions and what is under way come back as they were,
// and the same state gives the same bytes.
func TestExportIsTheSameAfterAnImport(t *testing.T) {
	m := stopped(t)
	data, x := exported(t, m, "rides")
	again, _ := exported(t, m, "rides")
	require.Equal(t, frames(t, data), frames(t, again))
	require.Positive(t, x.Rows)
	require.NoError(t, Import(t.Context(), ImportOptions{Cluster: m,
		Topology: ridePipelineAs(t, m, "fork")}, x))
	_, y := exported(t, m, "fork")
	require.Equal(t, x.Rows, y.Rows)
	require.Equal(t, x.Records, y.Records)
	at, err := x.Positions()
	require.NoError(t, err)
	for p := range int32(rideParts) {
		tp := client.TopicPartition{Topic: "rides", Partition: p}
		require.EqualValues(t, len(m.Records(tp)), at[tp])
	}
	require.Len(t, at, rideParts+2, "and two of the table, none of the topic between the stages")
	same, err := y.Positions()
	require.NoError(t, err)
	require.Equal(t, at, same)

	x.header.Tasks[0].Commit = nil
	require.ErrorContains(t, Import(t.Context(), ImportOptions{Cluster: m,
		Topology: ridePipelineAs(t, m, "fork")}, x), "holds something already")
}

// frames are those of an export behind its header, which has the time.
func frames(t *testing.T, data []byte) []byte {
	t.Helper()
	f, err := openFrames(bytes.NewReader(data))
	require.NoError(t, err)
	_, _, err = f.next()
	require.NoError(t, err)
	return data[f.at:]
}

// TestExportThatIsNotWholeIsRefused cuts an export at every place and flips bits in it: no import
// ever begins with it.
func TestExportThatIsNotWholeIsRefused(t *testing.T) {
	m := stopped(t)
	data, _ := exported(t, m, "rides")
	refused := func(data []byte, at int) {
		t.Helper()
		_, err := OpenExport(bytes.NewReader(data))
		require.ErrorIs(t, err, ErrExport, "at %d", at)
	}
	for at := 0; at < len(data); at += 1 + at/50 {
		refused(data[:at], at)
	}
	for at := 0; at < len(data); at += 1 + at/50 {
		other := bytes.Clone(data)
		other[at] ^= 0x10
		refused(other, at)
	}
	refused(append(bytes.Clone(data), 0), len(data))
	newer := bytes.Clone(data)
	newer[len(exportMagic)] = exportVersion + 1
	_, err := OpenExport(bytes.NewReader(newer))
	require.ErrorContains(t, err, "format 2, this build reads 1; use the version that wrote it")
}

// TestImportRefusesAnotherTopology: nothing is made.
func TestImportRefusesAnotherTopology(t *testing.T) {
	m := stopped(t)
	_, x := exported(t, m, "rides")
	for want, change := range map[string]func(*topology.Topology){
		`it has the parts by_country, rides, the pipeline has rides`: func(o *topology.Topology) {
			o.Subs = o.Subs[:1]
		},
		"part by_country has 2 partitions in it and 4 in the pipeline": func(o *topology.Topology) {
			o.Subs[1].Partitions = 4
		},
		`part by_country has "store totals`: func(o *topology.Topology) {
			for i := range o.Subs[1].Nodes {
				for j := range o.Subs[1].Nodes[i].Stores {
					o.Subs[1].Nodes[i].Stores[j].Name = "sums"
				}
			}
		},
		`part rides has "source rides rides 3 0" in it and "source rides other 3 0" in the pipeline`: func(
			o *topology.Topology,
		) {
			o.Subs[0].Sources[0].Topic = "other"
		},
	} {
		topo := ridePipelineAs(t, m, "fork")
		change(topo)
		err := Import(t.Context(), ImportOptions{Cluster: m, Topology: topo}, x)
		require.ErrorIs(t, err, ErrExport)
		require.ErrorContains(t, err, want)
	}
	infos, err := m.Admin().Topics(t.Context(), InternalTopics(ridePipelineAs(t, m, "fork"))...)
	require.NoError(t, err)
	require.Empty(t, infos)
	x.header.Tasks = x.header.Tasks[1:]
	require.ErrorContains(t, x.Fits(ridePipelineAs(t, m, "fork")), "it lacks task 0 of by_country")
}

// TestExportRefusesWhatHasNoState: it names the topic.
func TestExportRefusesWhatHasNoState(t *testing.T) {
	m := rideLog(t, nil)
	o := ExportOptions{Cluster: m, Topology: ridePipelineAs(t, m, "rides"), Dir: t.TempDir()}
	err := Export(t.Context(), o, &bytes.Buffer{})
	require.ErrorIs(t, err, ErrTopics)
	require.ErrorContains(t, err, "topic rides-rides-changelog does not exist")
	require.NoError(t, m.Admin().CreateTopics(t.Context(), internalTopics(Options{
		Topology: o.Topology})...))
	err = Export(t.Context(), o, &bytes.Buffer{})
	require.ErrorIs(t, err, ErrStateLost)
	require.ErrorContains(t, err, "rides-by_country-changelog-0 holds no commit")

	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays behind")
}

// TestExportWaitsForCommitsThatFit: a commit of the second stage is seen before that of the first
// one whose records it has processed, as a log may show it; and again, records under way are
// deleted between two looks.
func TestExportWaitsForCommitsThatFit(t *testing.T) {
	reader := &snapshot{Inputs: []inputSnapshot{{Topic: "r", Partition: 1, Lanes: []laneSnapshot{
		{Writer: "a.s.0", Seq: 7}}}}}
	tp := client.TopicPartition{Topic: "r", Partition: 1}
	require.NoError(t, fits(reader, tp, map[string]*snapshot{"a.s.0": {Seq: 7}}))
	require.ErrorIs(t, fits(reader, tp, map[string]*snapshot{"a.s.0": {Seq: 6}}), errMoving)

	m := stopped(t)
	repartition := client.TopicPartition{Topic: "rides-by_country-repartition"}
	ranges, err := m.Admin().Ranges(t.Context(), repartition)
	require.NoError(t, err)
	require.Positive(t, ranges[repartition].End)
	x := &exporter{o: ExportOptions{Cluster: m, Topology: ridePipelineAs(t, m, "rides")},
		header: exportHeader{App: "rides"}}
	x.consumer, err = m.Consumer()
	require.NoError(t, err)
	defer x.consumer.Close()
	require.NoError(t, x.find(t.Context()))
	m.Trim(repartition, ranges[repartition].End)
	source := &x.o.Topology.Subs[1].Sources[0]
	x.snapshots[0].Inputs[0].Offset = ranges[repartition].End - 1
	err = x.lane(t.Context(), &frameWriter{w: io.Discard}, 0, source)
	require.ErrorIs(t, err, errMoving)
	require.ErrorContains(t, err, "rides-by_country-repartition-0 begins at")
}

// TestRowsWithoutAValueStayRows: an empty value behind a long key is not a deletion.
func TestRowsWithoutAValueStayRows(t *testing.T) {
	var s slab
	s.copy(make([]byte, slabBytes))
	require.NotNil(t, s.copy([]byte{}))
	require.Nil(t, s.copy(nil))
}

// slowTaker takes what is written after an hour.
type slowTaker struct{}

func (slowTaker) Write(b []byte) (int, error) {
	<-time.After(time.Hour)
	return len(b), nil
}

// TestExportThatTakesTooLongFails: rows that its commits need may have left the changelog after an
// hour, and it would look whole without them.
func TestExportThatTakesTooLongFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rideLog(t, rides(100, 1))
		_, err := runWorker(t.Context(), t, rideOptionsAs(t, m, "rides"))
		require.NoError(t, err)
		err = Export(t.Context(), ExportOptions{Cluster: m, Topology: ridePipelineAs(t, m, "rides"),
			Dir: t.TempDir()}, slowTaker{})
		require.ErrorIs(t, err, ErrExport)
		require.ErrorContains(t, err, "may have been compacted meanwhile")
	})
}
