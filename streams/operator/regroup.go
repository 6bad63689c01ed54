package operator

import "bytes"

// Regroup gives the changes of a table another key. A row that stays in its group is one change
// there; one that moves is taken out of the old group first and then put into the new one. A null
// group holds no rows. A row for which group fails is in no group.
func Regroup(group func(rec *Record) ([]byte, error)) Factory {
	return func() Operator { return &regroup{group: group} }
}

type regroup struct {
	group func(rec *Record) ([]byte, error)
}

// Process implements Operator.
func (r *regroup) Process(ctx *Context, in, out *Batch) error {
	for i := range in.Records {
		rec := &in.Records[i]
		var from, to []byte
		if rec.Old != nil && !rec.Old.IsNull() {
			from, _ = r.group(rec.Old) // one that fails was in no group before
		}
		if !rec.IsNull() {
			var err error
			if to, err = r.group(rec); err != nil {
				if err := ctx.Fail(rec, ClassOperator, err); err != nil {
					return err
				}
			}
		}
		if to == nil && !rec.IsNull() {
			ctx.Stats().Ignored.Add(1)
		}
		if from != nil && !bytes.Equal(from, to) {
			gone := *rec
			gone.Key = from
			gone.SetValue(nil)
			out.Append(&gone)
		}
		if to != nil {
			change := *rec
			change.Key = to
			if !bytes.Equal(from, to) || from == nil {
				change.Old = nil
			}
			out.Append(&change)
		}
	}
	return nil
}
