package operator

// The steps here work on the changes of a table: each record is a row with, in Old, the one it
// takes the place of. What they give are the changes of a table again, so that whoever comes after
// them can take back exactly what it was given.

// FilterRows keeps the rows for which keep returns true. A row that no longer passes comes out as
// deleted; one that did not pass before either does not come out. A row on which keep fails is
// none.
func FilterRows(keep func(rec *Record) (bool, error)) Factory {
	return func() Operator { return &filterRows{keep: keep} }
}

type filterRows struct {
	keep func(rec *Record) (bool, error)
}

// Process implements Operator.
func (f *filterRows) Process(ctx *Context, in, out *Batch) error {
	for i := range in.Records {
		rec := &in.Records[i]
		was, is := false, false
		var err error
		if rec.Old != nil && !rec.Old.IsNull() {
			old := *rec.Old // keep may note something in it
			if was, err = f.keep(&old); err != nil {
				was = false // it failed then, too
			}
		}
		if !rec.IsNull() {
			if is, err = f.keep(rec); err != nil {
				if err := ctx.Fail(rec, ClassOperator, err); err != nil {
					return err
				}
				is = false
			}
		}
		switch {
		case is:
			out.Append(rec)
			if !was {
				out.Records[len(out.Records)-1].Old = nil
			}
		case was:
			out.Append(rec)
			deleted(&out.Records[len(out.Records)-1])
		}
	}
	return nil
}

// deleted makes a change the deletion of its row.
func deleted(rec *Record) {
	rec.SetValue(nil)
	rec.Headers = nil
}

// MapRows changes the value of every row by fn, which must give the same for the same row. A row on
// which fn fails is none.
func MapRows(fn func(rec *Record) error) Factory {
	return func() Operator { return &mapRows{fn: fn} }
}

type mapRows struct{ fn func(rec *Record) error }

// Process implements Operator.
func (m *mapRows) Process(ctx *Context, in, out *Batch) error {
	for i := range in.Records {
		rec := &in.Records[i]
		made := *rec
		if rec.Old != nil && !rec.Old.IsNull() {
			old := *rec.Old
			if made.Old = &old; m.fn(&old) != nil {
				made.Old = nil // it failed then, too
			}
		}
		if !rec.IsNull() {
			if err := m.fn(&made); err != nil {
				if err := ctx.Fail(rec, ClassOperator, err); err != nil {
					return err
				}
				deleted(&made)
			}
		}
		if made.IsNull() && made.Old == nil && (rec.Old != nil || !rec.IsNull()) {
			continue // there was no row, and there is none
		}
		out.Append(&made)
	}
	return nil
}
