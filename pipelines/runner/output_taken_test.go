package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// Three records, a marker at 3, a record, a marker at 5: the group stands at 6, and the connector
// has taken four records, the last of them at 4.
func TestMarkersOfTransactionsAreNotTakenByConnectors(t *testing.T) {
	var at taken
	at = at.with([]record.Record{{Offset: 0}, {Offset: 1}, {Offset: 2}})
	at = at.with([]record.Record{{Offset: 4}}).with(nil)
	require.Equal(t, taken{records: 4, after: 5}, at)
	require.Equal(t, at, parseTaken(at.String(), 6))
}

func TestOffsetsCommittedWithoutNoteCountRecords(t *testing.T) {
	for _, note := range []string{"", "12", "x records before y"} {
		require.Equal(t, taken{records: 7, after: 7}, parseTaken(note, 7), note)
	}
}
