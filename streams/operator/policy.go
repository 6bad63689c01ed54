package operator

// Action is what happens to a record that failed.
type Action int8

// Actions. The zero value leaves the choice to DefaultAction.
const (
	// DefaultAction is DeadLetter when a topic for it is known, else Stop.
	DefaultAction Action = iota
	// Stop ends the task with a StopError; the position stays before the record.
	Stop
	// ToDeadLetter writes the original record to the dead-letter topic and goes on.
	ToDeadLetter
	// Drop counts the record and goes on.
	Drop
)

// String returns the name used in pipeline files.
func (a Action) String() string {
	switch a {
	case Stop:
		return "stop"
	case ToDeadLetter:
		return "dlq"
	case Drop:
		return "drop"
	}
	return "default"
}

// ErrorPolicy says what a step does with a record that fails.
type ErrorPolicy struct {
	// Then is the action for every class not in ByClass.
	Then Action
	// DeadLetterTopic is where dead letters go; required when an action is ToDeadLetter.
	DeadLetterTopic string
	// ByClass overrides Then for an error class.
	ByClass map[string]Action
}

// ActionFor returns the action for an error class, never DefaultAction.
func (p *ErrorPolicy) ActionFor(class string) Action {
	a, ok := p.ByClass[class]
	if !ok || a == DefaultAction {
		a = p.Then
	}
	if a == DefaultAction {
		a = Stop
		if p.DeadLetterTopic != "" {
			a = ToDeadLetter
		}
	}
	return a
}

// LateAction is what happens to a record that came after its window was closed.
type LateAction int8

// Late actions.
const (
	// LateDefault is LateDeadLetter when the step has a dead-letter topic, else LateDrop.
	LateDefault LateAction = iota
	// LateDrop counts the record and keeps a sample of it in the statistics.
	LateDrop
	// LateDeadLetter writes a dead letter of class late.
	LateDeadLetter
	// LateSide writes the original record to a topic of its own.
	LateSide
)

// LatePolicy says what a windowed step does with late records. They are counted in any case.
type LatePolicy struct {
	Action LateAction
	Topic  string // where LateSide writes
}
