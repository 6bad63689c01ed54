package task

import (
	"sync"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// paces keeps the tasks of this worker together in event time where a source has a MaxSkew. What
// the fast ones are ahead would only fill the memory of the tasks that merge them.
type paces struct {
	mu struct {
		sync.Mutex
		// times are the times of the tasks that have records to read, by sub-topology and task.
		times map[int]map[string]int64
	}
}

// tell notes the time of a task and returns the least of its sub-topology. A task that has read its
// log to the end holds back nobody: it leaves.
func (p *paces) tell(sub int, task string, time int64, behind bool) (least int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.times == nil {
		p.mu.times = map[int]map[string]int64{}
	}
	times := p.mu.times[sub]
	if times == nil {
		times = map[string]int64{}
		p.mu.times[sub] = times
	}
	if delete(times, task); behind && time != operator.EndOfTime {
		times[task] = time
	}
	least = time
	for _, t := range times {
		least = min(least, t)
	}
	return least
}

// skew is the least bound of the sources of the task, 0 without any.
func (t *loop) skew() (bound int64) { return skewOf(t.sub) }

func skewOf(sub *topology.Sub) (bound int64) {
	for i := range sub.Sources {
		if s := sub.Sources[i].MaxSkew; s > 0 && (bound == 0 || s < bound) {
			bound = s
		}
	}
	return bound
}

// keepPace tells the other tasks how far this one is, and reports whether it has to wait for them.
func (t *loop) keepPace() (wait bool) {
	bound := t.skew()
	if bound == 0 {
		return false
	}
	now, behind := t.core.StreamTime(), false
	for _, in := range t.inputs {
		behind = behind || in.kind == StreamInput && !in.settled && in.at < in.end
	}
	if n, _ := t.core.Buffered(); n > 0 {
		behind = true
	}
	least := t.opts.paces.tell(t.sub.ID, t.name, now, behind)
	return now != operator.NoTime && now != operator.EndOfTime && least != now &&
		(least == operator.NoTime || now-least > bound)
}

// leavePace lets the others go on without this task.
func (t *loop) leavePace() {
	if t.skew() > 0 {
		t.opts.paces.tell(t.sub.ID, t.name, operator.EndOfTime, false)
	}
}

// ahead adds to want the inputs that must not be read on because the task waits for slower ones.
func (t *loop) ahead(want map[client.TopicPartition]bool) {
	for i := range t.sub.Sources {
		s := &t.sub.Sources[i]
		tp := client.TopicPartition{Topic: s.Topic, Partition: t.partition}
		if t.waits && s.MaxSkew > 0 && t.byTP[tp] != nil {
			want[tp] = true
		}
	}
}
