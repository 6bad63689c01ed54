package check

import "github.com/millstream-io/millstream/pipelines/lang"

//go:generate go test -run TestCodesAreGenerated -update

// Expressions.
const (
	// CodeUnknownField: the schema has no such field.
	CodeUnknownField lang.Code = "E203"
	// CodeUnknownName: there is no such name or function.
	CodeUnknownName lang.Code = "E205"
	// CodeExprType: an operator or function cannot take values of these types.
	CodeExprType lang.Code = "E206"
	// CodeExprResult: the expression's result is not of the type that is needed.
	CodeExprResult lang.Code = "E207"
	// CodeExprTooLong: the expression is longer or has more parts than is allowed.
	CodeExprTooLong lang.Code = "E208"
	// CodeClock: now() was called; it would make a replay differ from the live run.
	CodeClock lang.Code = "E209"
	// CodeProcessingTime: processing_time() was called; a replay gives another result.
	CodeProcessingTime lang.Code = "W211"
	// CodeWallTimers: a plugin's operator has timers of the machine's clock; a replay may differ.
	CodeWallTimers lang.Code = "W215"
	// CodeNullable: a value that may be null is used where null is an error.
	CodeNullable lang.Code = "W212"
	// CodeUntyped: the values of a source have no schema, so fields are not checked.
	CodeUntyped lang.Code = "I214"
)

// The pipeline as a graph.
const (
	// CodeUnknownFrom: from: names no source, step or branch.
	CodeUnknownFrom lang.Code = "E301"
	// CodeCycle: steps read each other in a circle.
	CodeCycle lang.Code = "E302"
	// CodeDuplicateID: two things of the pipeline have the same id.
	CodeDuplicateID lang.Code = "E303"
	// CodeNoInput: a step or sink has no from: and there is not exactly one thing it could mean.
	CodeNoInput lang.Code = "E304"
	// CodeNoDLQ: a policy says dlq, but no dead-letter topic is declared.
	CodeNoDLQ lang.Code = "E305"
	// CodeUnknownTable: a join names no table.
	CodeUnknownTable lang.Code = "E306"
	// CodeUnknownPlugin: a step uses a plugin that is not declared or has no such operator.
	CodeUnknownPlugin lang.Code = "E307"
	// CodeUnknownSchema: schema: names no schema, or one for bytes that are no JSON.
	CodeUnknownSchema lang.Code = "E308"
	// CodeUnknownConnector: there is no such connector for this use.
	CodeUnknownConnector lang.Code = "E309"
	// CodeNeedsID: a step that keeps state or runs a plugin has no id.
	CodeNeedsID lang.Code = "E310"
	// CodeNeedsKey: an operator works by key, and the records have no known one.
	CodeNeedsKey lang.Code = "E311"
	// CodeConfig: a setting of a connector or plugin is unknown, missing or out of range.
	CodeConfig lang.Code = "E312"
	// CodePartitions: streams that are joined are declared with different partition counts.
	CodePartitions lang.Code = "E313"
	// CodeEmptyPipeline: the pipeline has no source or no sink.
	CodeEmptyPipeline lang.Code = "E314"
	// CodeFormats: merged streams differ in the format of keys or values.
	CodeFormats lang.Code = "E315"
	// CodeKeyRule: a key: expression at a source that no connector fills.
	CodeKeyRule lang.Code = "E316"
	// CodeRowName: the name of a joined row is taken or has a meaning of its own.
	CodeRowName lang.Code = "E317"
	// CodePathConflict: set: or unset: name a field twice, or a field inside another one named.
	CodePathConflict lang.Code = "E318"
	// CodeTopicLoop: a topic that the pipeline writes is also read by it.
	CodeTopicLoop lang.Code = "E319"
	// CodeNeedsJSON: the operator works on JSON values, and these are not.
	CodeNeedsJSON lang.Code = "E320"
	// CodeElse: else: is not the last way out of a branch, or is there twice.
	CodeElse lang.Code = "E321"
	// CodePlugin: a plugin cannot be asked what it accepts.
	CodePlugin lang.Code = "E322"
	// CodeSameTopic: two sources, or a source and a topic table, read the same topic.
	CodeSameTopic lang.Code = "E323"
	// CodeUnbounded: what a step keeps per key grows without bound.
	CodeUnbounded lang.Code = "E325"
	// CodeWindowRule: a key of an aggregate does not go with its windows.
	CodeWindowRule lang.Code = "E326"
	// CodeNeedsMerge: a reduce in windows that grow together has no merge:.
	CodeNeedsMerge lang.Code = "E327"
	// CodeTableInput: an operator that works on streams reads a table, or the other way round.
	CodeTableInput lang.Code = "E328"
	// CodeNoRetraction: an aggregator that cannot take rows back reads a table.
	CodeNoRetraction lang.Code = "E329"
	// CodeUnusedSource: nothing reads a source or table.
	CodeUnusedSource lang.Code = "W331"
	// CodeUnusedStep: nothing reads what a step gives.
	CodeUnusedStep lang.Code = "W332"
	// CodeUnusedBranch: nothing reads a way out of a branch.
	CodeUnusedBranch lang.Code = "W333"
	// CodeNoElse: records for which no condition of a branch holds go nowhere.
	CodeNoElse lang.Code = "W334"
	// CodeLateDropped: late records are dropped because no policy is declared.
	CodeLateDropped lang.Code = "W335"
	// CodeUnusedPlugin: no step uses a declared plugin.
	CodeUnusedPlugin lang.Code = "W336"
	// CodeUnusedDLQ: a dead-letter topic is declared, but no policy leads to it.
	CodeUnusedDLQ lang.Code = "W337"
	// CodeTableOrder: a join wants rows of a table in an order, or of a time, the table has not.
	CodeTableOrder lang.Code = "E352"
	// CodeKeyForms: keys of a join are declared in formats that write text in different bytes.
	CodeKeyForms lang.Code = "W351"
	// CodeNoTopic: a topic that somebody else fills does not exist on the cluster.
	CodeNoTopic lang.Code = "E501"
	// CodeUnequalTopics: topics whose equal keys meet have different numbers of partitions.
	CodeUnequalTopics lang.Code = "E502"
	// CodeNoRight: whoever plans the pipeline may not read or write one of its topics.
	CodeNoRight lang.Code = "W503"
	// CodeSharedTopic: another pipeline writes the topic of a sink.
	CodeSharedTopic lang.Code = "E504"
)

// CodeDoc is one finding code with its meaning.
type CodeDoc struct {
	Code    lang.Code
	Meaning string
}

// Codes lists every finding code there is, by number.
func Codes() []CodeDoc { return codes }

// Explain is the meaning of a code.
func Explain(code lang.Code) (string, bool) {
	for _, c := range codes {
		if c.Code == code {
			return c.Meaning, true
		}
	}
	return "", false
}
