package main

// pipelineMutants break the rules of pipelines: what is refused, what is tried again, what is compared.
var pipelineMutants = []mutant{
	// What a file may say.
	{"state without a bound is refused", "pipelines/check/group.go", "case !a.TTL.Pos.IsSet() && !a.Unbounded.Value && !c.absent:",
		"case false:", []string{"pipelines/check:Mistakes"}},
	{"dlq needs a topic for dead letters", "pipelines/check/policy.go", "\tif p.DLQ == \"\" {", "\tif false {",
		[]string{"pipelines/check:Mistakes"}},
	{"a policy refines the one around it", "pipelines/check/policy.go", "\t\tp = *outer\n\t\tp.ByClass", "\t\tp.ByClass",
		[]string{"pipelines/check:", "pipelines/runner:Errors|Malformed"}},
	// What a cluster has.
	{"topics that are joined are cut alike", "pipelines/plan/cluster.go", "\t\tcase n == a.cluster.Topics[first]:\n", "\t\tcase true:\n",
		[]string{"pipelines/plan:Cluster"}},
	{"an input must exist", "pipelines/plan/cluster.go", "a.cluster.Topics[topic]; !ok {", "a.cluster.Topics[topic]; !ok && false {",
		[]string{"pipelines/plan:Cluster"}},
	{"a sink's topic is one pipeline's", "pipelines/plan/cluster.go", "other != \"\" && !s.Shared.Value {", "false && other != \"\" {",
		[]string{"pipelines/plan:Cluster"}},
	{"rights are asked for before", "pipelines/plan/cluster.go", "may != nil && !may(topic) {\n\t\ta.report(at",
		"may != nil && false {\n\t\ta.report(at", []string{"pipelines/plan:Cluster"}},
	// Changes of what runs.
	{"a change that loses state is refused", "pipelines/runner/failure.go", "if diff.Class != plan.StateReset {", "if true {",
		[]string{"pipelines/runner:Losing"}},
	{"a step that is removed loses its state", "pipelines/plan/diff.go", "class, why = StateReset, \"removed;", "class, why = DrainRestart, \"removed;",
		[]string{"pipelines/plan:Diff"}},
	{"an error that comes again names the way back", "pipelines/runner/failure.go", "errors.Is(err, task.ErrTopics), errors.Is(err, task.ErrStateLost),",
		"errors.Is(err, task.ErrStateLost),", []string{"pipelines/runner:MadeAgain"}},
	{"a full disk passes", "pipelines/runner/failure.go", "syscall.ENOSPC, ", "", []string{"pipelines/runner:Trouble"}},
	{"trouble that passes is tried again", "pipelines/deploy/keeper.go", "\tcase errors.Is(err, ErrTemporary):", "\tcase false:",
		[]string{"pipelines/deploy:Temporary"}},
	// Sources and sinks.
	{"a sink is tried again", "pipelines/runner/output_deliver.go", "if bad.Retryable && attempt <= o.opts.Retries {", "if false {",
		[]string{"pipelines/runner:Sink"}},
	{"a sink that refuses for good is not asked again", "pipelines/runner/output_deliver.go", "if bad.Retryable && attempt <= o.opts.Retries {",
		"if attempt <= o.opts.Retries {", []string{"pipelines/runner:Sink"}},
	{"a plugin's record is tried again", "pipelines/runner/plugin_step.go", "if !failed.Retryable || attempt > s.node.Policy.RetryMax {",
		"if true {", []string{"pipelines/runner:Plugin"}},
	{"a plugin's time is not ahead of the stream's", "pipelines/runner/plugin_step.go", "if o.Timestamp <= rec.StreamTime {", "if true {",
		[]string{"pipelines/runner:Plugin"}},
	// Replays.
	{"a comparison sees a record that differs", "pipelines/replay/verify.go", "\t\tif live[i].hash != s.hash {", "\t\tif live[i].hash != s.hash && false {",
		[]string{"pipelines/replay:"}},
	{"a comparison sees a record that is missing at the start", "pipelines/replay/verify.go", "case want.FromStart && before > 0:", "case false:",
		[]string{"pipelines/replay:"}},
	{"a comparison sees a record that is missing at the end", "pipelines/replay/verify.go", "case want.FromStart && want.ToEnd && after > 0:",
		"case false:", []string{"pipelines/replay:"}},
	{"a comparison sees times", "pipelines/replay/outputs.go", "uint64(r.Timestamp.UnixMilli())", "0", []string{"pipelines/replay:"}},
	{"a comparison sees headers", "pipelines/replay/outputs.go", "\t\t\tpart(header.Value)\n", "", []string{"pipelines/replay:"}},
	{"null is not empty", "pipelines/replay/outputs.go", "\t\t\tsize = -1\n", "", []string{"pipelines/replay:"}},
	{"markers of time are no results", "pipelines/replay/outputs.go", "\t\tif carriesTime(r) {", "\t\tif false {", []string{"pipelines/replay:"}},
}
