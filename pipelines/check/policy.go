package check

import (
	"maps"
	"time"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// Retries when the file says nothing.
const (
	defaultRetries      = 5
	defaultRetryFirst   = 100 * time.Millisecond
	defaultRetryLongest = 30 * time.Second
)

// policy reads an on_error block over the policy it refines. Without a word, a failed record goes
// to the dead-letter topic if one is declared, else the pipeline stops and keeps its position.
func (c *checker) policy(tree *lang.OnError, outer *Policy) Policy {
	p := Policy{Then: ActionStop, RetryMax: defaultRetries, RetryFirst: defaultRetryFirst,
		RetryLongest: defaultRetryLongest, ByClass: map[string]Action{}}
	if outer != nil {
		p = *outer
		p.ByClass = maps.Clone(outer.ByClass)
	}
	if tree == nil {
		return p
	}
	if tree.DLQ.Set {
		p.DLQ = string(tree.DLQ.Value)
		if !tree.Then.Set {
			p.Then = ActionDLQ
		}
	}
	if tree.Then.Set {
		p.Then = Action(tree.Then.Value)
		if p.Then == ActionDLQ {
			c.needDLQ(p, tree.Then.Pos, len(tree.Then.Value))
		}
	}
	leads := p.Then == ActionDLQ
	for i := range tree.ByClass.Entries {
		e := &tree.ByClass.Entries[i]
		if !e.Value.Set {
			continue
		}
		p.ByClass[e.Key] = Action(e.Value.Value)
		if e.Value.Value == string(ActionDLQ) {
			leads = true
			c.needDLQ(p, e.Value.Pos, len(e.Value.Value))
		}
	}
	if tree.DLQ.Set && !leads {
		c.dlqMaybeUnused = append(c.dlqMaybeUnused, tree.DLQ)
	}
	if r := tree.Retry; r != nil {
		p.RetryMax = int(r.Max.Or(int64(p.RetryMax)))
		if r.Backoff.Set {
			p.RetryFirst, p.RetryLongest = r.Backoff.Value.First, r.Backoff.Value.Longest
		}
	}
	return p
}

// needDLQ reports a policy that leads to a dead-letter topic that is not there.
func (c *checker) needDLQ(p Policy, at lang.Pos, width int) {
	c.dlqUses++
	if p.DLQ == "" {
		c.report(at, width, CodeNoDLQ, "dlq needs a dead-letter topic, none is declared",
			"add  on_error: {dlq: topic}")
	}
}
