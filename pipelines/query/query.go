package query

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

// Bounds of an answer.
const (
	defaultLimit = 1000
	maxLimit     = 10_000
	maxBytes     = 8 << 20
	// viewTime bounds how long a task may be kept from making its state file longer.
	viewTime = time.Second
	// freshTime bounds the wait for a task to write what it has committed.
	freshTime = 10 * time.Second
)

// Store is one store of a step or table of a running pipeline.
type Store struct {
	// Node is the id of the step or table in the file.
	Node string
	// Name of the store in the task, Part what tells it from the others of the node ("" if there is
	// but one), Kind what it is in a word.
	Name, Part, Kind string
	// Sub is the sub-topology whose tasks have it.
	Sub        string
	Key, Value expression.Format
	// Reader makes what reads its rows.
	Reader func() operator.RowReader
	// Parts are its tasks.
	Parts func() []*task.Part
}

// Source knows the pipelines that run here.
type Source interface {
	// Stores are those of a pipeline; ok is false when it does not run here.
	Stores(pipeline string) (stores []Store, ok bool)
}

// Request is a question for rows.
type Request struct {
	Pipeline, Node string
	// Key as JSON or text; nil asks for any rows.
	Key *string
	// From and To bound the time of windows, or of rows that have none, in ms: those that reach into
	// [From, To).
	From, To int64
	// Partitions to look at; nil is all.
	Partitions []int32
	Limit      int
	// Stale takes rows of a copy and of a restore that is under way.
	Stale bool
	// Fresh has the task write what it has committed first.
	Fresh bool
	// MaxLag refuses rows that are more changelog records behind; negative is any.
	MaxLag int64
}

// storesOf finds the stores of a node.
func storesOf(from Source, pipeline, node string) ([]Store, error) {
	all, ok := from.Stores(pipeline)
	if !ok {
		return nil, refuse(http.StatusNotFound, CodeUnknownPipeline,
			"pipeline %q does not run here", pipeline).
			do("millstream pipeline status %s tells where it runs", pipeline)
	}
	var found []Store
	var names []string
	for _, s := range all {
		if s.Node == node {
			found = append(found, s)
		}
		if !slices.Contains(names, s.Node) {
			names = append(names, s.Node)
		}
	}
	if len(found) > 0 || node == "" {
		return found, nil
	}
	e := refuse(http.StatusNotFound, CodeUnknownNode, "%q of pipeline %s keeps no rows", node, pipeline)
	if len(names) == 0 {
		return nil, e.why("no step or table of it keeps any")
	}
	whole, part, isPart := strings.Cut(node, ".")
	if isPart && slices.Contains(names, whole) {
		return nil, e.why("%s is the part %q of %s, whose rows are shown as a whole", node, part, whole).
			do("millstream pipeline state get %s %s", pipeline, whole)
	}
	if near := lang.Nearest(node, names); near != "" {
		return nil, e.do("did you mean %q?", near)
	}
	return nil, e.do("these do: %s", strings.Join(names, ", "))
}

// checkTasks refuses a number of a task that a node does not have.
func checkTasks(stores []Store, r *Request) error {
	var known []string
	for _, s := range stores {
		for _, p := range s.Parts() {
			if n := strconv.Itoa(int(p.Partition)); !slices.Contains(known, n) {
				known = append(known, n)
			}
		}
	}
	for _, p := range r.Partitions {
		if n := strconv.Itoa(int(p)); !slices.Contains(known, n) {
			return badRequest("%s has no task %s", r.Node, n).
				do("its tasks are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// partsOf are the tasks of a store that are to be looked at, and those that are not here.
func partsOf(
	s Store, r *Request,
) (here []*task.Part, elsewhere []Place, missing []Partition, err error) {
	for _, p := range s.Parts() {
		if r.Partitions != nil && !slices.Contains(r.Partitions, p.Partition) {
			continue
		}
		switch {
		case p.InMemory():
			return nil, nil, nil, refuse(http.StatusConflict, CodeNoState,
				"the state of %s is in memory only", p.Name).do("give the worker a --data-dir")
		case p.Here() && (p.Fresh() || r.Stale):
			here = append(here, p)
		case p.Address != "":
			elsewhere = append(elsewhere, Place{p.Partition, p.Address})
		case r.Stale:
			missing = append(missing, absent(p))
		default:
			return nil, nil, nil, notNow(p)
		}
	}
	return here, elsewhere, missing, nil
}

func absent(p *task.Part) Partition {
	read, of := p.Restored()
	return Partition{Task: p.Name, Partition: p.Partition, Phase: p.Phase, Restored: read,
		ToRestore: of}
}

// notNow tells why the rows of a task cannot be looked at.
func notNow(p *task.Part) *Error {
	e := refuse(http.StatusServiceUnavailable, CodeRestoring, "task %s is %s", p.Name, p.Phase)
	switch p.Phase {
	case task.Restoring, task.Waiting:
		read, of := p.Restored()
		e = e.why("%d of %d changelog records are restored", read, of)
	case task.Standby:
		e = e.why("this worker has a copy, and nobody says that it runs the task")
	}
	return e.do("ask again in a while, or with --stale (stale=true) for the rows as they are")
}

// Ask answers a request from the state files here.
func Ask(ctx context.Context, from Source, r Request) (*Answer, error) {
	stores, err := storesOf(from, r.Pipeline, r.Node)
	if err != nil {
		return nil, err
	}
	if err := checkTasks(stores, &r); err != nil {
		return nil, err
	}
	a := &asking{r: &r, answer: &Answer{Pipeline: r.Pipeline, Node: r.Node, Rows: []Row{},
		Partitions: []Partition{}}}
	if a.r.Limit <= 0 {
		a.r.Limit = defaultLimit
	}
	a.r.Limit = min(a.r.Limit, maxLimit)
	for i := range stores {
		if err := a.store(ctx, &stores[i]); err != nil {
			return nil, err
		}
	}
	if len(a.answer.Partitions) == 0 && len(a.answer.Elsewhere) > 0 {
		e := refuse(http.StatusMisdirectedRequest, CodeElsewhere,
			"the tasks of %s run in other workers", r.Node).do("ask %s", a.answer.Elsewhere[0].Address)
		e.Elsewhere = a.answer.Elsewhere
		return nil, e
	}
	return a.answer, nil
}

// asking is a request at work.
type asking struct {
	r      *Request
	answer *Answer
	bytes  int
}

// store looks at the tasks of one store.
func (a *asking) store(ctx context.Context, s *Store) error {
	here, elsewhere, missing, err := partsOf(*s, a.r)
	if err != nil {
		return err
	}
	for _, x := range elsewhere {
		if !slices.Contains(a.answer.Elsewhere, x) {
			a.answer.Elsewhere = append(a.answer.Elsewhere, x)
		}
	}
	for _, x := range missing {
		if !slices.ContainsFunc(a.answer.Missing, func(m Partition) bool { return m.Task == x.Task }) {
			a.answer.Missing = append(a.answer.Missing, x)
		}
	}
	for _, p := range here {
		if err := a.part(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// part looks at one task. A task that goes while it is looked at is like one that is not there.
func (a *asking) part(ctx context.Context, s *Store, p *task.Part) error {
	if err := flush(ctx, a.r, p); err != nil {
		return err
	}
	err := p.View(func(v *state.View, at task.Position) error {
		if err := lagging(a.r, p, at); err != nil {
			return err
		}
		seen := slices.ContainsFunc(a.answer.Partitions, func(x Partition) bool {
			return x.Task == p.Name
		})
		if !seen {
			a.answer.Partitions = append(a.answer.Partitions, partitionOf(p, at, v.Size()))
		}
		return a.rows(s, p, v, at)
	})
	if errors.Is(err, state.ErrClosed) || errors.Is(err, state.ErrLocked) {
		return notNow(p)
	}
	return err
}

// flush has the task write what it has committed, when that was asked for.
func flush(ctx context.Context, r *Request, p *task.Part) error {
	if !r.Fresh || !p.Fresh() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	err := p.Flush(ctx)
	switch {
	case err == nil, errors.Is(err, state.ErrClosed):
		return nil // the task is done, and has written all
	case ctx.Err() != nil:
		return refuse(http.StatusServiceUnavailable, CodeLagging, "task %s is busy", p.Name).
			why("it did not write what it has committed within %s", freshTime).
			do("ask without --fresh (fresh=true)")
	}
	return refuse(http.StatusInternalServerError, CodeFailed, "task %s: %v", p.Name, err)
}

func lagging(r *Request, p *task.Part, at task.Position) error {
	if r.MaxLag < 0 || at.Lag <= r.MaxLag {
		return nil
	}
	return refuse(http.StatusServiceUnavailable, CodeLagging,
		"the rows of task %s are %d changelog records behind", p.Name, at.Lag).
		why("at most %d were asked for", r.MaxLag).do("ask with --fresh (fresh=true)")
}

// rows reads the rows of a view that are asked for.
func (a *asking) rows(s *Store, p *task.Part, v *state.View, at task.Position) error {
	deadline := time.Now().Add(viewTime)
	read, looked := s.Reader(), 0
	keys := [][]byte{nil}
	if a.r.Key != nil {
		keys = keysOf(s.Key, *a.r.Key)
	}
	return v.Buckets(s.Name, -1<<63, func(b state.Bucket) error {
		for _, key := range keys {
			from := []byte(nil)
			if key != nil {
				from = read.Seek(key)
			}
			err := v.Scan(b, from, func(k, value []byte) error {
				if looked++; looked%1024 == 0 && time.Now().After(deadline) {
					return tooLong(s)
				}
				row := operator.StoredRow{Start: b.Start, Key: k, Value: value,
					StreamTime: at.StreamTime}
				other := false
				err := read.Read(row, func(kept operator.Kept) error {
					if key != nil && !bytes.Equal(kept.Key, key) {
						other = true
						return nil
					}
					return a.take(s, p, kept)
				})
				if err == nil && (other || key != nil && !bytes.HasPrefix(k, from)) {
					return state.ErrStop
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if a.answer.More {
			return state.ErrStop
		}
		return nil
	})
}

func tooLong(s *Store) *Error {
	return refuse(http.StatusRequestEntityTooLarge, CodeTooLong,
		"%s has too many rows to look through", s.Node).
		why("a task may be held up for %s only", viewTime).
		do("name a key, or use millstream pipeline state export")
}

// take adds a row to the answer.
func (a *asking) take(s *Store, p *task.Part, k operator.Kept) error {
	if !a.r.inTime(k) {
		return nil
	}
	if len(a.answer.Rows) >= a.r.Limit || a.bytes >= maxBytes {
		a.answer.More = true
		return state.ErrStop
	}
	row := s.rowOf(p.Partition, k)
	a.bytes += len(row.Key) + len(row.Value)
	a.answer.Rows = append(a.answer.Rows, row)
	return nil
}

// inTime reports whether a row reaches into the time that is asked for.
func (r *Request) inTime(k operator.Kept) bool {
	switch {
	case k.Window == (operator.Window{}):
		return k.Timestamp == operator.NoTime || k.Timestamp >= r.From && k.Timestamp < r.To
	case k.Window.Inclusive:
		return k.Window.End >= r.From && k.Window.Start < r.To
	}
	return k.Window.End > r.From && k.Window.Start < r.To
}
