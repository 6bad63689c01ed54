package task

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
)

// addTableRow applies a record of a table topic: the later record of a key wins, whatever their
// timestamps say. It emits nothing.
func (c *Core) addTableRow(in *coreInput, r *record.Record) error {
	in.ctx.Stats().In.Add(1)
	if r.Key == nil {
		return c.failAside(in, r, operator.ClassNullKey, operator.ErrNullKey)
	}
	if r.Value == nil {
		if err := in.store.Delete(r.Key); err != nil {
			return fmt.Errorf("delete row of table %s: %w", in.table.ID, err)
		}
		return nil
	}
	if in.table.Decode != nil {
		if _, err := in.table.Decode(r.Key, r.Value); err != nil {
			return c.failAside(in, r, operator.ClassDecode, fmt.Errorf("row of table: %w", err))
		}
	}
	if err := in.store.Put(r.Key, r.Value); err != nil {
		return fmt.Errorf("put row of table %s: %w", in.table.ID, err)
	}
	return nil
}

// failAside fails a record outside the order of events: rows of tables come by arrival, records of
// foreign writers in no order at all. Their dead letters are not part of the sequence.
func (c *Core) failAside(in *coreInput, r *record.Record, class string, cause error) error {
	var rec operator.Record
	in.record(&rec, r)
	rec.StreamTime, rec.Order = c.now, 2*c.events
	c.out.control = true
	err := in.ctx.Fail(&rec, class, cause)
	c.out.control = false
	return err
}
