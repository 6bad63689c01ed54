package runner

import (
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/task"
)

// troubles tells what keeps the run from going on: a log that does not answer, a task that is lost
// again and again. Of several that which began first is told, since it may be why of the others.
func (in *instance) troubles(st *deploy.Status, now task.Status) {
	in.mu.Lock()
	cluster := in.mu.cluster
	in.mu.Unlock()
	var first *deploy.Trouble
	if log := cluster.Trouble(); log.Is() {
		first = troubleOf(log, "check the broker: millstream doctor; the pipeline goes on by itself"+
			" when it answers")
	}
	for _, t := range now.Tasks {
		if t.Trouble.Is() && (first == nil || t.Trouble.Since.Before(first.Since)) {
			first = taskTrouble(t)
		}
		if t.Unfiled.Is() && (first == nil || t.Unfiled.Since.Before(first.Since)) {
			first = in.unfiled(t)
		}
	}
	if first == nil {
		return
	}
	st.Trouble = first
	if st.State == deploy.Running {
		st.State = deploy.Degraded
	}
}

func taskTrouble(t task.TaskStatus) *deploy.Trouble {
	return troubleOf(t.Trouble, "task "+t.ID()+" is opened again at its last commit by itself; if this"+
		" lasts, see what its broker says")
}

func (in *instance) unfiled(t task.TaskStatus) *deploy.Trouble {
	return troubleOf(t.Unfiled, "task "+t.ID()+" keeps what is committed in its changelog and goes"+
		" on; make room below "+in.runner.stateDir()+", and it writes its file by itself")
}

func troubleOf(t client.Trouble, do string) *deploy.Trouble {
	return &deploy.Trouble{Since: t.Since.UTC(), Error: t.Error, Do: do}
}
