package runner

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
)

// taken is what a connector has taken of a partition, noted beside the committed offset. That one
// tells neither: the markers of transactions have offsets too.
type taken struct {
	// records is how many.
	records int64
	// after is the offset that follows the last of them, 0 if there was none.
	after int64
}

// parseTaken reads what String wrote. Beside an offset without a note stands what was committed
// before there were notes, when every offset was that of a record.
func parseTaken(note string, committed int64) taken {
	var t taken
	if n, err := fmt.Sscanf(note, "%d records before %d", &t.records, &t.after); n != 2 || err != nil {
		return taken{records: committed, after: committed}
	}
	return t
}

// String returns the note.
func (t taken) String() string { return fmt.Sprintf("%d records before %d", t.records, t.after) }

// with adds the records of a run.
func (t taken) with(records []record.Record) taken {
	if n := len(records); n > 0 {
		t.records += int64(n)
		t.after = records[n-1].Offset + 1
	}
	return t
}
