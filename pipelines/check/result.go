package check

import (
	"time"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// Result is a checked pipeline: names resolved, expressions compiled.
type Result struct {
	Tree    *lang.Pipeline
	Vars    []expression.Var
	Sources []*Source
	Tables  []*Table
	// Steps are in the order records flow.
	Steps []*Step
	Sinks []*Sink
	// Policy is the pipeline's own error policy.
	Policy Policy
}

// Stream is what flows out of a source, step or branch.
type Stream struct {
	ID    string
	Scope *expression.Scope
	// Keys are expressions, as text, that give the record's current key: "key", and the
	// expression that made it while the value it looked at is unchanged.
	Keys []string
	// KeyKnown is false when nothing says that records have a key.
	KeyKnown bool
	// Table means that the records are the changes of a table.
	Table bool
	// Broken means that something before it is in error; nothing is reported about it.
	Broken bool
}

// Source is a checked source.
type Source struct {
	ID     string
	Tree   *lang.Source
	Out    *Stream
	Set    *expression.Set
	Topic  string
	Key    *expression.Program // makes the key of a record a connector read; nil: as it comes
	KeyDoc expression.Doc
	// EventTime gives the timestamp; nil: the record's own.
	EventTime *expression.Program
	Connector *Component
	// Policy is that of records whose event time cannot be told.
	Policy Policy
	CloseAtEnd,
	// Streamed says that a step or sink reads the source; TableOnly that only tables do.
	Streamed, TableOnly bool
}

// Table is a checked table.
type Table struct {
	ID    string
	Tree  *lang.Table
	Topic string
	From  *Source // the source that fills the topic, or nil
	Doc   expression.Row
	Key   expression.Doc
	used  bool
	// Step is the step whose records are the rows, "" for a table of a topic or source.
	Step string
	// keyReported: that its keys are not known was said.
	keyReported bool
}

// Step is a checked step. What is set depends on Tree.Operator.
type Step struct {
	ID    string
	Named bool // the file gives the id
	Tree  *lang.Step
	From  []string
	In    *Stream
	Out   *Stream // nil for a branch
	Arms  []Arm
	Set   *expression.Set

	// FoldSet is the set of an aggregate's folds; key is the group's key there.
	FoldSet *expression.Set

	Program    *expression.Program    // filter, flat_map, key_by, join's on, aggregate's by
	Projection *expression.Projection // map
	Patch      *expression.Patch      // set, unset
	Template   *expression.Template   // log
	Table      *Table
	Row        string // name of the joined row
	Folds      []Fold
	Reduce     *Reduce
	// Group is how an aggregate or a reduce groups records.
	Group      *lang.Aggregate
	LateAction string // dlq, drop or topic
	Plugin     *PluginUse
	Policy     Policy
	// Relation is how a join of two tables finds rows, "" for other joins.
	Relation Relation
	// AsOf: the table is joined in the order of event time.
	AsOf bool
	// Other is what a join of two streams, or of a table made of a step, reads beside From; OtherSet
	// and OtherOn make the key of a stream.
	Other    string
	OtherIn  *Stream
	OtherSet *expression.Set
	OtherOn  *expression.Program
	// OtherKeyOK is KeyOK for Other.
	OtherKeyOK bool
	// Global: Program is looked up in a global table, the record keeps its key.
	Global bool
	// KeyOK says that the record's key is the one a join or aggregate needs.
	KeyOK bool

	readers int
}

// Arm is one way out of a branch. When is nil for else.
type Arm struct {
	When    *expression.Program
	Out     *Stream
	tree    *lang.Arm
	readers int
}

// Fold is one field of an aggregate. Arg is nil for count.
type Fold struct {
	Name, Func string
	Arg        *expression.Program
	// Of is what topk shows; nil is Arg.
	Of *expression.Program
	// Limit is how many values topk and collect keep.
	Limit int
	// ByOffset: first and last go by the order of processing.
	ByOffset bool
}

// Reduce is a fold by expressions. Init and Update are of the step's FoldSet; Merge, of MergeSet,
// is nil when there is none.
type Reduce struct {
	Init, Update, Merge *expression.Program
	MergeSet            *expression.Set
}

// PluginUse is a plugin step's plugin.
type PluginUse struct {
	Alias, Source, Operator string
	Memory                  int64 // bytes, 0 is no limit
	Component               *Component
}

// Sink is a checked sink.
type Sink struct {
	ID        string
	Tree      *lang.Sink
	From      string
	In        *Stream
	Set       *expression.Set
	Key       *expression.Program    // nil: the record's own key
	Value     *expression.Projection // nil: the record's own value
	Text      bool                   // write the value as text, not as JSON
	Connector *Component
	Policy    Policy
}

// Action is what happens to a record that failed.
type Action string

// The actions.
const (
	ActionStop  Action = "stop"
	ActionDLQ   Action = "dlq"
	ActionDrop  Action = "drop"
	ActionRetry Action = "retry"
)

// Policy is an error policy with every default filled in.
type Policy struct {
	Then    Action
	DLQ     string // dead-letter topic, "" when there is none
	ByClass map[string]Action
	// RetryMax tries after the first one, waiting from RetryFirst up to RetryLongest.
	RetryMax                 int
	RetryFirst, RetryLongest time.Duration
}

// For is the action for a class of failure. When retries are used up, it is Then.
func (p Policy) For(class string) Action {
	if a, ok := p.ByClass[class]; ok {
		return a
	}
	if class == "sink_transient" {
		return ActionRetry
	}
	return p.Then
}
