package command

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// The families of pipelines: what this process does of them. Counters begin with the process, so a
// task that moves from one worker to another counts once in a sum over workers.
var (
	nodeLabels  = []string{"pipeline", "node"}
	inputLabels = []string{"pipeline", "topic", "partition"}

	famPipeline = pipelineFamily("info", "1 for each pipeline in this process, with its revision and "+
		"state.", metrics.Gauge, "pipeline", "revision", "state")
	famTasks = pipelineFamily("tasks", "Tasks in this process, by what they are doing.",
		metrics.Gauge, "pipeline", "phase")
	famTrouble = pipelineFamily("trouble_seconds", "How long something has kept the pipeline from "+
		"going on, such as a broker that does not answer; 0 while nothing does.", metrics.Gauge,
		"pipeline")
	famPluginRestarts = pipelineFamily("plugin_restarts_total",
		"Plugin processes that were started again.", metrics.Counter, "pipeline")
	famWatermark = pipelineFamily("watermark_seconds",
		"Event time of the slowest task, seconds since 1970.", metrics.Gauge, "pipeline")
	famWatermarkLag = pipelineFamily("watermark_lag_seconds",
		"How far that is behind the clock.", metrics.Gauge, "pipeline")
	famLag = pipelineFamily("lag_records", "Records of inputs that are not processed.",
		metrics.Gauge, "pipeline")
	famState = pipelineFamily("state_bytes", "State of all tasks, in memory and in files.",
		metrics.Gauge, "pipeline")
	famStateDirty = pipelineFamily("state_dirty_bytes",
		"Changed rows in memory: uncommitted, or not in their file yet.", metrics.Gauge, "pipeline")
	famStateCached = pipelineFamily("state_cached_bytes", "Rows in memory that are kept for reading.",
		metrics.Gauge, "pipeline")
	famStateEvicted = pipelineFamily("state_evicted_rows",
		"Rows forgotten to stay within the memory, since the tasks were opened.", metrics.Gauge,
		"pipeline")
	famStateLimit = pipelineFamily("state_memory_limit_bytes",
		"What the states of all pipelines in this process may take in memory (--state-memory).",
		metrics.Gauge, "pipeline")
	famConnector = pipelineFamily("connector_records",
		"Records that a connector has moved since the first one.", metrics.Gauge,
		"pipeline", "node", "connector")
	famConnectorLag = pipelineFamily("connector_lag_records",
		"Records that a connector has still to move.", metrics.Gauge, "pipeline", "node", "connector")

	famNodeIn   = nodeFamily("records_in_total", "Records that entered.", metrics.Counter)
	famNodeOut  = nodeFamily("records_out_total", "Records that left.", metrics.Counter)
	famNodeLate = nodeFamily("late_records_total", "Records that came after their window was closed.",
		metrics.Counter)
	famNodeFailed = nodeFamily("failed_records_total", "Records that could not be processed.",
		metrics.Counter)
	famNodeDead = nodeFamily("dead_lettered_records_total",
		"Records that went to a dead-letter topic, late ones included.", metrics.Counter)
	famNodeBusy = nodeFamily("busy_seconds_total",
		"Time in the node by all its tasks, estimated from one batch in 64.", metrics.Counter)
	famNodeState     = nodeFamily("state_bytes", "About what the node keeps.", metrics.Gauge)
	famNodeWatermark = nodeFamily("watermark_seconds",
		"Event time up to which its slowest task has processed, seconds since 1970.", metrics.Gauge)
	famNodeWatermarkLag = nodeFamily("watermark_lag_seconds", "How far that is behind the clock.",
		metrics.Gauge)

	famInputLag       = inputFamily("lag_records", "Records of the partition that are not processed.")
	famInputPosition  = inputFamily("position", "First offset that is not processed.")
	famInputWatermark = inputFamily("watermark_seconds",
		"Event time of the partition, seconds since 1970.")
	famInputWatermarkLag = inputFamily("watermark_lag_seconds", "How far that is behind the clock.")

	famPipelineOmitted = &metrics.Family{Name: "millstream_pipeline_metrics_omitted",
		Help: "Nodes, or input partitions, that are not told one by one: there are more than " +
			"metrics.series.max in this process.", Kind: metrics.Gauge, Labels: []string{"kind"}}
)

func pipelineFamily(name, help string, kind metrics.Kind, labels ...string) *metrics.Family {
	return &metrics.Family{Name: "millstream_pipeline_" + name, Help: help, Kind: kind,
		Labels: labels}
}

func nodeFamily(name, help string, kind metrics.Kind) *metrics.Family {
	return &metrics.Family{Name: "millstream_pipeline_node_" + name, Help: help, Kind: kind,
		Labels: nodeLabels}
}

func inputFamily(name, help string) *metrics.Family {
	return &metrics.Family{Name: "millstream_pipeline_input_" + name, Help: help,
		Kind: metrics.Gauge, Labels: inputLabels}
}

// defaultSeriesMax is the default of metrics.series.max, where there is no broker to ask.
const defaultSeriesMax = 100_000

// pipelineMetrics tells what the pipelines in this process do.
type pipelineMetrics struct {
	// reconciler is set once there is one.
	reconciler atomic.Pointer[deploy.Reconciler]
	// most bounds the nodes, and the input partitions, that are told one by one.
	most int
	now  func() time.Time
}

var _ metrics.Source = (*pipelineMetrics)(nil)

// newPipelineMetrics takes the bound of the broker configs.
func newPipelineMetrics(configs map[string]string) *pipelineMetrics {
	m := &pipelineMetrics{most: defaultSeriesMax, now: time.Now}
	if n, err := strconv.Atoi(configs["metrics.series.max"]); err == nil { // the broker complains
		m.most = n
	}
	return m
}

// Families implements metrics.Source.
func (m *pipelineMetrics) Families() []*metrics.Family {
	return []*metrics.Family{famPipeline, famTasks, famTrouble, famPluginRestarts, famWatermark,
		famWatermarkLag, famLag, famState, famStateDirty, famStateCached, famStateEvicted,
		famStateLimit, famConnector, famConnectorLag, famNodeIn, famNodeOut,
		famNodeLate, famNodeFailed, famNodeDead, famNodeBusy, famNodeState, famNodeWatermark,
		famNodeWatermarkLag, famInputLag, famInputPosition, famInputWatermark,
		famInputWatermarkLag, famPipelineOmitted}
}

// running are the pipelines in this process, with the sums of the tasks here.
func (m *pipelineMetrics) running() []deploy.Status {
	r := m.reconciler.Load()
	if r == nil {
		return nil
	}
	return r.Running()
}

// WriteMetrics implements metrics.Source.
func (m *pipelineMetrics) WriteMetrics(p *metrics.Page) {
	all := m.running()
	var nodes []nodeSample
	var inputs []inputSample
	for i := range all {
		nodes = append(nodes, nodeSamples(&all[i])...)
		inputs = append(inputs, inputSamples(&all[i])...)
	}
	m.writePipelines(p, all)
	writeConnectors(p, all)
	if len(nodes) <= m.most {
		m.writeNodes(p, nodes)
	}
	if len(inputs) <= m.most {
		m.writeInputs(p, inputs)
	}
	p.Begin(famPipelineOmitted)
	p.Int(omittedOf(len(nodes), m.most), "nodes")
	p.Int(omittedOf(len(inputs), m.most), "input partitions")
}

// omittedOf is how many of n are left out when at most so many are told: all or none.
func omittedOf(n, most int) int64 {
	if n <= most {
		return 0
	}
	return int64(n)
}

func (m *pipelineMetrics) writePipelines(p *metrics.Page, all []deploy.Status) {
	p.Begin(famPipeline)
	for _, st := range all {
		p.Int(1, st.Name, strconv.Itoa(st.Revision), string(st.State))
	}
	p.Begin(famTasks)
	for _, st := range all {
		phases := map[string]int64{}
		for _, t := range st.Tasks {
			if t.Here {
				phases[t.Phase]++
			}
		}
		for _, phase := range slices.Sorted(maps.Keys(phases)) {
			p.Int(phases[phase], st.Name, phase)
		}
	}
	p.Begin(famTrouble)
	for _, st := range all {
		var since time.Duration
		if st.Trouble != nil {
			since = max(0, m.now().Sub(st.Trouble.Since))
		}
		p.Seconds(since, st.Name)
	}
	p.Begin(famPluginRestarts)
	for _, st := range all {
		p.Int(st.Restarts, st.Name)
	}
	sums := make([]deploy.Status, len(all))
	for i, st := range all {
		sums[i] = hereOnly(st)
	}
	p.Begin(famWatermark)
	for _, st := range sums {
		writeTime(p, st.Watermark, st.Name)
	}
	p.Begin(famWatermarkLag)
	for _, st := range sums {
		m.writeLag(p, st.Watermark, st.Name)
	}
	p.Begin(famLag)
	for _, st := range sums {
		p.Int(st.Lag, st.Name)
	}
	p.Begin(famState)
	for _, st := range sums {
		p.Int(st.StateBytes, st.Name)
	}
	writeMemory(p, sums)
}

// writeMemory tells what states take in memory.
func writeMemory(p *metrics.Page, sums []deploy.Status) {
	p.Begin(famStateDirty)
	for _, st := range sums {
		p.Int(st.Memory.DirtyBytes, st.Name)
	}
	p.Begin(famStateCached)
	for _, st := range sums {
		p.Int(st.Memory.CachedBytes, st.Name)
	}
	p.Begin(famStateEvicted)
	for _, st := range sums {
		p.Int(st.Memory.Evicted, st.Name)
	}
	p.Begin(famStateLimit)
	for _, st := range sums {
		p.Int(st.MemoryLimit, st.Name)
	}
}

// hereOnly is the part of a pipeline that runs in this process, added up.
func hereOnly(st deploy.Status) deploy.Status {
	part := deploy.Status{Name: st.Name, MemoryLimit: st.MemoryLimit}
	for _, s := range st.Sources {
		part.Sources = append(part.Sources, deploy.SourceStatus{ID: s.ID, Topic: s.Topic,
			Table: s.Table})
	}
	for _, t := range st.Tasks {
		if t.Here {
			part.Tasks = append(part.Tasks, t)
		}
	}
	return part.Sum()
}

// writeConnectors tells what connectors count, in the process that runs them.
func writeConnectors(p *metrics.Page, all []deploy.Status) {
	p.Begin(famConnector)
	for _, st := range all {
		for _, s := range st.Sources {
			if s.Connector != "" {
				p.Int(s.Records, st.Name, s.ID, s.Connector)
			}
		}
		for _, s := range st.Sinks {
			if s.Connector != "" {
				p.Int(s.Records, st.Name, s.ID, s.Connector)
			}
		}
	}
	p.Begin(famConnectorLag)
	for _, st := range all {
		for _, s := range st.Sinks {
			if s.Connector != "" {
				p.Int(s.Lag, st.Name, s.ID, s.Connector)
			}
		}
	}
}

// nodeSample is what this process does of one node.
type nodeSample struct {
	pipeline, node string
	work           deploy.Work
	state          int64
	watermark      time.Time
}

// nodeSamples adds up the tasks of each node. Counters are also those of tasks that have left,
// since a counter never falls.
func nodeSamples(st *deploy.Status) []nodeSample {
	var samples []nodeSample
	at := map[string]int{}
	add := func(t *deploy.TaskStatus, rows []deploy.StepStatus) {
		for _, row := range rows {
			i, known := at[row.ID]
			if !known {
				i, at[row.ID] = len(samples), len(samples)
				samples = append(samples, nodeSample{pipeline: st.Name, node: row.ID})
			}
			s := &samples[i]
			s.work = s.work.Plus(row.Work)
			if !t.Here {
				continue
			}
			s.state += row.StateBytes
			if s.watermark.IsZero() || !t.Watermark.IsZero() && t.Watermark.Before(s.watermark) {
				s.watermark = t.Watermark
			}
		}
	}
	for i := range st.Tasks {
		t := &st.Tasks[i]
		add(t, t.Sources)
		add(t, t.Steps)
		add(t, t.Sinks)
	}
	return samples
}

func (m *pipelineMetrics) writeNodes(p *metrics.Page, nodes []nodeSample) {
	for _, f := range []struct {
		family *metrics.Family
		of     func(*nodeSample) int64
	}{
		{famNodeIn, func(s *nodeSample) int64 { return s.work.In }},
		{famNodeOut, func(s *nodeSample) int64 { return s.work.Out }},
		{famNodeLate, func(s *nodeSample) int64 { return s.work.Late }},
		{famNodeFailed, func(s *nodeSample) int64 { return s.work.Failed }},
		{famNodeDead, func(s *nodeSample) int64 { return s.work.DeadLettered }},
		{famNodeState, func(s *nodeSample) int64 { return s.state }},
	} {
		p.Begin(f.family)
		for i := range nodes {
			p.Int(f.of(&nodes[i]), nodes[i].pipeline, nodes[i].node)
		}
	}
	p.Begin(famNodeBusy)
	for _, s := range nodes {
		p.Seconds(s.work.Busy, s.pipeline, s.node)
	}
	p.Begin(famNodeWatermark)
	for _, s := range nodes {
		writeTime(p, s.watermark, s.pipeline, s.node)
	}
	p.Begin(famNodeWatermarkLag)
	for _, s := range nodes {
		m.writeLag(p, s.watermark, s.pipeline, s.node)
	}
}

// inputSample is one partition that this process reads.
type inputSample struct {
	pipeline, partition string
	deploy.InputStatus
}

// inputSamples are the partitions that tasks here read. Of one that several tasks read, as that of
// a table which all of them have, the one that is behind most counts.
func inputSamples(st *deploy.Status) []inputSample {
	var samples []inputSample
	at := map[string]int{}
	for _, t := range st.Tasks {
		if !t.Here {
			continue
		}
		for _, in := range t.Inputs {
			s := inputSample{st.Name, strconv.Itoa(int(in.Partition)), in}
			i, known := at[in.Topic+"-"+s.partition]
			switch {
			case !known:
				at[in.Topic+"-"+s.partition] = len(samples)
				samples = append(samples, s)
			case in.Lag > samples[i].Lag:
				samples[i] = s
			}
		}
	}
	return samples
}

func (m *pipelineMetrics) writeInputs(p *metrics.Page, inputs []inputSample) {
	p.Begin(famInputLag)
	for _, in := range inputs {
		p.Int(in.Lag, in.pipeline, in.Topic, in.partition)
	}
	p.Begin(famInputPosition)
	for _, in := range inputs {
		p.Int(in.Position, in.pipeline, in.Topic, in.partition)
	}
	p.Begin(famInputWatermark)
	for _, in := range inputs {
		writeTime(p, in.Watermark, in.pipeline, in.Topic, in.partition)
	}
	p.Begin(famInputWatermarkLag)
	for _, in := range inputs {
		m.writeLag(p, in.Watermark, in.pipeline, in.Topic, in.partition)
	}
}

// writeTime writes a time, if there is one.
func writeTime(p *metrics.Page, at time.Time, labels ...string) {
	if !at.IsZero() {
		p.Float(float64(at.UnixMilli())/1000, labels...)
	}
}

func (m *pipelineMetrics) writeLag(p *metrics.Page, at time.Time, labels ...string) {
	if !at.IsZero() {
		p.Seconds(m.now().Sub(at), labels...)
	}
}
