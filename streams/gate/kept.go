package gate

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/streams/operator"
)

// errRow reports a row no version of this package writes.
var errRow = errors.New("malformed row of a gate")

// Reader returns how rows of a store are read from outside; nil for stores of other packages.
func Reader(spec operator.StoreSpec) operator.RowReader {
	switch {
	case strings.HasPrefix(spec.Format, "dedupe 1 "):
		return seen{}
	case strings.HasPrefix(spec.Format, "throttle 1 "):
		return passed{}
	}
	return nil
}

// seen reads the stream time at which a key was first seen.
type seen struct{}

// Seek implements operator.RowReader.
func (seen) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (seen) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	if len(row.Value) != 8 {
		return errRow
	}
	return fn(operator.Kept{Key: row.Key,
		Timestamp: int64(binary.BigEndian.Uint64(row.Value))})
}

// passed reads how many records of a key passed in a span of stream time.
type passed struct{}

// Seek implements operator.RowReader.
func (passed) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (passed) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	n, size := binary.Uvarint(row.Value)
	if size != len(row.Value) {
		return errRow
	}
	return fn(operator.Kept{Key: row.Key, Timestamp: row.Start,
		Value: strconv.AppendUint(nil, n, 10)})
}
