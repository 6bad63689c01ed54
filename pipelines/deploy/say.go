package deploy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// say writes a status where others read it.
func (k *keeper) say(ctx context.Context, st Status) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if st.Follower {
		if st.State != Failed && st.State != Restarting {
			return // it is for the worker that speaks for the pipeline to tell
		}
		if known, ok, err := k.opts.Store.base(ctx, k.name); ok && err == nil {
			known.Revision, known.State, known.Trouble = st.Revision, st.State, st.Trouble
			known.Error = alarmOf(st.Worker) + st.Error
			st = known
		}
		k.alarmed = true
	}
	err := k.opts.Store.WriteStatus(ctx, st)
	if k.unsaid = err != nil; k.unsaid && ctx.Err() == nil {
		k.opts.Logger.Warn("status not published", "pipeline", k.name, "error", err)
	}
}

// alarmOf begins the error that a worker told which does not speak for the pipeline.
func alarmOf(worker string) string { return fmt.Sprintf("worker %s: ", worker) }

// takeBack says that the pipeline runs, if it is this worker that said it did not, and that runs
// again: the one that speaks for the pipeline publishes what changes there, which may be nothing.
func (k *keeper) takeBack(ctx context.Context, st Status) {
	if !k.alarmed || st.State != Running && st.State != Degraded {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	known, ok, err := k.opts.Store.base(ctx, k.name)
	if err == nil && ok && (known.State == Restarting || known.State == Failed) &&
		(known.Worker == st.Worker || strings.HasPrefix(known.Error, alarmOf(st.Worker))) {
		known.State, known.Error, known.Trouble = Running, "", nil
		err = k.opts.Store.WriteStatus(ctx, known)
	}
	if err == nil {
		k.alarmed = false
		return
	}
	if ctx.Err() == nil {
		k.opts.Logger.Warn("status not published", "pipeline", k.name, "error", err)
	}
}

// tasksOf are the tasks as they are written beside the sums: none where workers tell them.
func tasksOf(st Status) []TaskStatus {
	if st.Worker != "" {
		return nil
	}
	return briefTasks(st.Tasks)
}

// partBytes is how much a worker says of the tasks of a pipeline in a second at most: of very many
// it tells less often.
const partBytes = 64 << 10

// publishPart tells of the tasks here, where several workers share them, if that is due or wanted
// now.
func (k *keeper) publishPart(ctx context.Context, st Status, now bool) {
	if st.Worker == "" || st.Tasks == nil || !now && time.Now().Before(k.partAt) {
		return
	}
	said := slices.Clone(st.Tasks)
	for i := range said {
		said[i].At = time.Time{}
	}
	if reflect.DeepEqual(said, k.part) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	size, err := k.opts.Store.writePart(ctx, Part{Name: k.name, Worker: st.Worker,
		Revision: st.Revision, HTTP: k.opts.HTTP, Tasks: st.Tasks})
	if err != nil {
		if ctx.Err() == nil {
			k.opts.Logger.Warn("status of tasks not published", "pipeline", k.name, "error", err)
		}
		return
	}
	k.part = said
	k.partAt = time.Now().Add(max(statusEvery, statusEvery*time.Duration(size)/partBytes))
}
