package server

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDesignPageListsWhatIsServed compares the table of APIs in core/DESIGN.md with the handlers.
func TestDesignPageListsWhatIsServed(t *testing.T) {
	page, err := os.ReadFile("../DESIGN.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "| key | API | versions | known gaps |\n"+
		"|---|---|---|---|\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[int16]string{}
	for line := range strings.Lines(table) {
		columns := strings.Split(line, " | ")
		require.GreaterOrEqual(t, len(columns), 3, line)
		versions, _, _ := strings.Cut(columns[2], " (") // Produce has a remark
		keys := keysOf(t, strings.TrimPrefix(columns[0], "| "))
		each := strings.Split(versions, ", ")
		require.Len(t, each, len(keys), line)
		for i, key := range keys {
			require.NotContains(t, listed, key)
			listed[key] = each[i]
		}
	}
	served := map[int16]string{}
	for _, h := range newHandlerTable(handlers).rows {
		served[h.key] = fmt.Sprintf("%d–%d", h.served, h.max)
		if h.served == h.max {
			served[h.key] = fmt.Sprint(h.max)
		}
	}
	require.Equal(t, served, listed)
}

// keysOf reads numbers and ranges of them.
func keysOf(t *testing.T, list string) []int16 {
	t.Helper()
	var keys []int16
	for part := range strings.SplitSeq(list, ", ") {
		from, to, isRange := strings.Cut(part, "–")
		first, err := strconv.ParseInt(from, 10, 16)
		require.NoError(t, err, list)
		last := first
		if isRange {
			last, err = strconv.ParseInt(to, 10, 16)
			require.NoError(t, err, list)
		}
		for key := first; key <= last; key++ {
			keys = append(keys, int16(key))
		}
	}
	return keys
}
