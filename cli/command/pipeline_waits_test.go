package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusNamesThePartitionThatIsWaitedFor: the one key of a table is in one of two partitions,
// so the groups wait for the other one until idle_after: at the table lets them go on.
func TestStatusNamesThePartitionThatIsWaitedFor(t *testing.T) {
	c := server(t)
	c.ok("topic", "create", "held-in", "held-out", "-p", "2")
	c.feed("k|{\"g\":\"x\"}\n", "produce", "held-in", "-k", "|")
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	text := `version: 1
pipeline: held
tables:
  rows: {topic: held-in, key: string}
steps:
  - {id: groups, from: rows, aggregate: {by: value.g, fields: {n: count}}}
sinks: {out: {topic: held-out}}
`
	c.ok("pipeline", "apply", writeFile(t, file, text))
	var told string
	eventually(t, func() bool {
		told = c.ok("pipeline", "status", "held")
		return strings.Contains(told, "waits     ")
	}, func() string { return "the partition without records is named: " + told })
	require.Regexp(t, `waits     groups for held-in-[01]: no records yet, quiet for \d+s; `+
		`idle_after: at rows lets the others go on`, told)

	text = strings.Replace(text, "key: string", "key: string, idle_after: 100ms", 1)
	c.ok("pipeline", "apply", writeFile(t, file, text), "--yes")
	c.waitOut("held", 1)
	eventually(t, func() bool {
		told = c.ok("pipeline", "status", "held")
		return !strings.Contains(told, "waits     ")
	}, func() string { return fmt.Sprint("nothing waits any more: ", told) })
}

// TestAgesAreReadable: event time of years ago is behind in days.
func TestAgesAreReadable(t *testing.T) {
	require.Equal(t, "1.3s", shortAge(1.26))
	require.Equal(t, "47h0m0s", shortAge(47*3600))
	require.Equal(t, "2d", shortAge(48*3600+5))
	require.Equal(t, "9374d", shortAge((224993*60+23)*60+25.3))
}
