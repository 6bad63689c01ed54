package deploy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// at is an instant of the tests, so many seconds in.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0).UTC() }

// taskRow is a task with one source, step and sink that have seen n records.
func taskRow(id string, seen, watermark int, n int64) deploy.TaskStatus {
	row := []deploy.StepStatus{{ID: "s", In: n, Out: n, Late: n / 10, DeadLettered: n / 100,
		StateBytes: n}}
	return deploy.TaskStatus{ID: id, At: at(seen), Watermark: at(watermark), StateBytes: n,
		Inputs:  []deploy.InputStatus{{Topic: "in", Lag: 3, Watermark: at(watermark + 1)}},
		Sources: []deploy.StepStatus{{ID: "src", In: n}}, Steps: row,
		Sinks: []deploy.StepStatus{{ID: "out", In: n, Out: n / 2}}}
}

// shared is what the worker that speaks for a pipeline writes.
func shared() deploy.Status {
	return deploy.Status{Name: "p", Worker: "a", Revision: 2,
		Sources: []deploy.SourceStatus{{ID: "src", Topic: "in"},
			{ID: "rows", Topic: "rows", Table: true}},
		Steps: []deploy.StepStatus{{ID: "s"}},
		Sinks: []deploy.SinkStatus{{ID: "out", Connector: "file", Records: 7, DeadLettered: 1}}}
}

// TestTotalCountsEachTaskOnce: task 1 went from worker a to b; both tell of it. a runs task 0. By
// hand: 100 + 250 records in, 10 + 25 late, dead letters 1 + 2 of the step and 1 of the sink's
// connector, the lesser watermark, which is that of task 0.
func TestTotalCountsEachTaskOnce(t *testing.T) {
	a := deploy.Part{Name: "p", Worker: "a", Revision: 2, Tasks: []deploy.TaskStatus{
		taskRow("in.0", 20, 1000, 100), taskRow("in.1", 10, 500, 200)}}
	b := deploy.Part{Name: "p", Worker: "b", Revision: 2, Tasks: []deploy.TaskStatus{
		taskRow("in.1", 20, 2000, 250)}}
	old := deploy.Part{Name: "p", Worker: "c", Revision: 1, Tasks: []deploy.TaskStatus{
		taskRow("gone.0", 30, 1, 999)}}
	for _, parts := range [][]deploy.Part{{a, b, old}, {old, b, a}} {
		st := shared().Total(parts)
		require.EqualValues(t, 350, st.RecordsIn)
		require.EqualValues(t, 350, st.Sources[0].Records)
		require.EqualValues(t, 175, st.RecordsOut)
		require.EqualValues(t, 7, st.Sinks[0].Records, "a connector counts for itself")
		require.EqualValues(t, 35, st.Late)
		require.EqualValues(t, 4, st.DeadLettered)
		require.EqualValues(t, 6, st.Lag)
		require.EqualValues(t, 350, st.StateBytes)
		require.Equal(t, at(1000), st.Watermark)
		require.Equal(t, at(1001), st.Sources[0].Watermark)
		require.Equal(t, at(1000), st.Steps[0].Watermark)
		require.EqualValues(t, 350, st.Steps[0].StateBytes)
		require.Len(t, st.Tasks, 2)
		require.Equal(t, "a", st.Tasks[0].Worker)
		require.Equal(t, "b", st.Tasks[1].Worker)
	}
	require.Zero(t, shared().RecordsIn, "nothing is changed in place")
}

// TestTotalWhileATaskIsOpened: the worker that opens a task knows no counters yet; those of the
// worker before it are still true.
func TestTotalWhileATaskIsOpened(t *testing.T) {
	a := deploy.Part{Worker: "a", Revision: 2, Tasks: []deploy.TaskStatus{
		taskRow("in.0", 10, 500, 200)}}
	b := deploy.Part{Worker: "b", Revision: 2, Tasks: []deploy.TaskStatus{
		{ID: "in.0", At: at(20), Phase: "restoring", ToRestore: 10}}}
	st := shared().Total([]deploy.Part{a, b})
	require.EqualValues(t, 200, st.RecordsIn)
	require.Equal(t, "restoring", st.Tasks[0].Phase)
	require.Equal(t, "b", st.Tasks[0].Worker)
}

// TestTableRecordsAreNoInputOfThePipeline: they count in their own row alone.
func TestTableRecordsAreNoInputOfThePipeline(t *testing.T) {
	row := deploy.TaskStatus{ID: "in.0", Sources: []deploy.StepStatus{{ID: "rows", In: 5}},
		Inputs: []deploy.InputStatus{{Topic: "rows", Lag: 9}}}
	st := shared().Total([]deploy.Part{{Worker: "a", Tasks: []deploy.TaskStatus{row}}})
	require.Zero(t, st.RecordsIn)
	require.Zero(t, st.Lag)
	require.EqualValues(t, 9, st.Sources[1].Lag)
}

// TestWhatAProcessDidIsNotWritten: counters of a process mean nothing to who reads the topic.
func TestWhatAProcessDidIsNotWritten(t *testing.T) {
	text, err := json.Marshal(deploy.StepStatus{ID: "s", Work: deploy.Work{In: 77}})
	require.NoError(t, err)
	require.NotContains(t, string(text), "77")
}
