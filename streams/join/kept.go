package join

import (
	"fmt"
	"strings"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// Names of the sides of a join for outsiders.
var sideNames = [2]string{left: "left", right: "right"}

// Reader returns how rows of a store are read from outside; nil for stores of other packages, and
// for those that only say when something is due or who wants to hear of what.
func Reader(spec operator.StoreSpec) operator.RowReader {
	is := func(format string) bool { return strings.HasPrefix(spec.Format, format) }
	switch {
	case is("table 1 ") && strings.HasSuffix(spec.Name, "-left"):
		return keptRows{sideNames[left]}
	case is("table 1 ") && strings.HasSuffix(spec.Name, "-right"):
		return keptRows{sideNames[right]}
	case is("table 1 "), spec.Format == "versions 1":
		return keptRows{}
	case is("versions 1 span "):
		return keptVersions{}
	case is("stream join 1 ") && strings.HasSuffix(spec.Name, "-buffer"):
		return keptRecords{}
	case is("foreign results 1"):
		return keptResults{}
	}
	return nil
}

// kept is what a row says, and whether there is one.
func kept(key, row []byte, side string) (operator.Kept, bool, error) {
	s, err := parseRow(row)
	if err != nil {
		return operator.Kept{}, false, err
	}
	return operator.Kept{Key: key, Value: s.value, Timestamp: s.ts, Window: s.window, Side: side},
		s.bits&rowDeleted == 0, nil
}

// keptRows reads the latest rows of a table.
type keptRows struct{ side string }

// Seek implements operator.RowReader.
func (keptRows) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (r keptRows) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	k, ok, err := kept(row.Key, row.Value, r.side)
	if err != nil || !ok {
		return err
	}
	return fn(k)
}

// keptVersions reads the rows a table had before.
type keptVersions struct{}

// Seek implements operator.RowReader.
func (keptVersions) Seek(key []byte) []byte { return appendKey(nil, key) }

// Read implements operator.RowReader.
func (keptVersions) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	of, rest, err := cutKey(row.Key)
	if err != nil {
		return err
	}
	if len(rest) != 8 || len(row.Value) < 8 {
		return fmt.Errorf("read version of %d bytes: %w", len(row.Value), errRow)
	}
	k, ok, err := kept(of, row.Value[8:], "")
	if err != nil || !ok {
		return err
	}
	k.From, k.Until = ^timeAt(rest), timeAt(row.Value)
	return fn(k)
}

// keptRecords reads the records of two streams that may still be joined.
type keptRecords struct{}

// Seek implements operator.RowReader.
func (keptRecords) Seek(key []byte) []byte { return appendKey(nil, key) }

// Read implements operator.RowReader. The rows that count others say nothing.
func (keptRecords) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	of, rest, err := cutKey(row.Key)
	if err != nil || len(rest) == 8 {
		return err
	}
	if len(rest) != 8+1+4 || rest[8] > right {
		return fmt.Errorf("read key of a kept record: %w", errRow)
	}
	k, _, err := kept(of, row.Value, sideNames[rest[8]])
	if err != nil {
		return err
	}
	return fn(k)
}

// keptResults reads the rows a result by foreign key was made of.
type keptResults struct{}

// Seek implements operator.RowReader.
func (keptResults) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (keptResults) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	r := fields.Reader{Left: row.Value}
	bits := r.Byte()
	if bits&stateRow != 0 {
		r.Bytes()
	}
	var rows [2][]byte
	if bits&stateEmitted != 0 {
		rows[left] = r.Bytes()
	}
	if bits&stateRight != 0 {
		rows[right] = r.Bytes()
	}
	if !r.Whole() {
		return fmt.Errorf("read result of %d bytes: %w", len(row.Value), errRow)
	}
	for side, part := range rows {
		if part == nil {
			continue
		}
		k, _, err := kept(row.Key, part, sideNames[side])
		if err != nil {
			return err
		}
		if err := fn(k); err != nil {
			return err
		}
	}
	return nil
}
