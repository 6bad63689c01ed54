package query

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

// Line is a line of an export. Type is position, row, end or error; of the rest only what belongs
// to the type is set.
type Line struct {
	Type string `json:"type"`
	*Partition
	*Row
	// Rows is how many there are before the end.
	Rows  *int64 `json:"rows,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// MarshalJSON implements json.Marshaler: a position and a row both have a partition.
func (l Line) MarshalJSON() ([]byte, error) {
	var of any
	switch {
	case l.Partition != nil:
		of = l.Partition
	case l.Row != nil:
		of = l.Row
	case l.Error != nil:
		of = map[string]*Error{"error": l.Error}
	default:
		of = map[string]*int64{"rows": l.Rows}
	}
	body, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(map[string]string{"type": l.Type})
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

// Export writes all rows of a node to w, one JSON object a line. begin is called before the first
// byte: after it an error is a line of the export.
func Export(ctx context.Context, from Source, r Request, begin func(), w io.Writer) error {
	stores, err := storesOf(from, r.Pipeline, r.Node)
	if err != nil {
		return err
	}
	if err := checkTasks(stores, &r); err != nil {
		return err
	}
	x := &export{ctx: ctx, r: &r, enc: json.NewEncoder(w), begin: begin}
	x.enc.SetEscapeHTML(false)
	// Everything is looked for first, so that an export that cannot be whole says so at once.
	var all [][]*task.Part
	for _, s := range stores {
		here, elsewhere, missing, err := partsOf(s, &r)
		switch {
		case err != nil:
			return err
		case len(elsewhere) > 0 && r.Partitions == nil:
			return misdirected(r.Node, elsewhere)
		case len(elsewhere)+len(missing) > 0:
			return notHere(r.Node, elsewhere, missing)
		}
		all = append(all, here)
	}
	for i := range stores {
		for _, p := range all[i] {
			if err := x.part(&stores[i], p); err != nil {
				return err
			}
		}
	}
	x.start()
	return x.enc.Encode(Line{Type: "end", Rows: &x.rows})
}

type export struct {
	ctx     context.Context
	r       *Request
	enc     *json.Encoder
	begin   func()
	started bool
	rows    int64
}

func (x *export) start() {
	if !x.started {
		x.started = true
		x.begin()
	}
}

// part exports the rows of one task, all of one commit, from a copy of its file.
func (x *export) part(s *Store, p *task.Part) error {
	if err := flush(x.ctx, x.r, p); err != nil {
		return x.fail(err)
	}
	copied, at, err := p.Snapshot()
	if errors.Is(err, state.ErrClosed) || errors.Is(err, state.ErrLocked) {
		return x.fail(notNow(p))
	}
	if err != nil {
		return x.fail(err)
	}
	err = lagging(x.r, p, at)
	if err == nil {
		x.start()
		err = x.copied(s, p, copied.View, at)
	}
	if closeErr := copied.Close(); err == nil {
		err = closeErr
	}
	return x.fail(err)
}

// fail makes an error the last line of an export that has begun.
func (x *export) fail(err error) error {
	if err == nil || !x.started {
		return err
	}
	known, ok := errors.AsType[*Error](err)
	if !ok {
		known = &Error{Code: CodeFailed, What: err.Error()}
	}
	return errors.Join(errTold, x.enc.Encode(Line{Type: "error", Error: known}))
}

// errTold is an error that the export itself has told.
var errTold = errors.New("the export ended with an error")

func (x *export) copied(s *Store, p *task.Part, v *state.View, at task.Position) error {
	where := partitionOf(p, at, v.Size())
	if err := x.enc.Encode(Line{Type: "position", Partition: &where}); err != nil {
		return err
	}
	read := s.Reader()
	return v.Buckets(s.Name, -1<<63, func(b state.Bucket) error {
		return v.Scan(b, nil, func(k, value []byte) error {
			if err := x.ctx.Err(); err != nil {
				return err
			}
			row := operator.StoredRow{Start: b.Start, Key: k, Value: value, StreamTime: at.StreamTime}
			return read.Read(row, func(kept operator.Kept) error {
				if !x.r.inTime(kept) {
					return nil
				}
				x.rows++
				row := s.rowOf(p.Partition, kept)
				return x.enc.Encode(Line{Type: "row", Row: &row})
			})
		})
	})
}

func misdirected(node string, elsewhere []Place) *Error {
	e := refuse(421, CodeElsewhere, "%d of the tasks of %s run in other workers", len(elsewhere),
		node).do("ask %s, and name the partitions of each: partition=%d", elsewhere[0].Address,
		elsewhere[0].Partition)
	e.Elsewhere = elsewhere
	return e
}

func notHere(node string, elsewhere []Place, missing []Partition) *Error {
	if len(elsewhere) > 0 {
		return misdirected(node, elsewhere)
	}
	return refuse(503, CodeRestoring, "task %s is %s", missing[0].Task, missing[0].Phase).
		why("there is no state file of it to export %s from", node)
}
