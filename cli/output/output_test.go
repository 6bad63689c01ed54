package output_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/output"
)

type row struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

var columns = []output.Column[row]{
	{Title: "NAME", Cell: func(r row) string { return r.Name }},
	{Title: "COUNT", Cell: func(r row) string { return fmt.Sprint(r.Count) }},
}

func printed(format output.Format, change func(*output.Printer), rows ...row) string {
	var out, notes bytes.Buffer
	p := output.NewPrinter(&out, &notes)
	p.Format = format
	if change != nil {
		change(p)
	}
	if err := output.List(p, rows, columns); err != nil {
		return err.Error()
	}
	return out.String()
}

func TestListInEveryFormat(t *testing.T) {
	rows := []row{{"a<b>&", 9007199254740993}, {"", 0}} // 2^53+1 is not a float64
	require.Equal(t, "NAME   COUNT\na<b>&  9007199254740993\n-      0\n",
		printed(output.Table, nil, rows...))
	require.Equal(t, "a<b>&  9007199254740993\n-      0\n",
		printed(output.Table, func(p *output.Printer) { p.NoHeaders = true }, rows...))
	require.Equal(t, "[\n  {\n    \"name\": \"a<b>&\",\n    \"count\": 9007199254740993\n  },\n"+
		"  {\n    \"name\": \"\",\n    \"count\": 0\n  }\n]\n", printed(output.JSON, nil, rows...))
	require.Equal(t, "{\"name\":\"a<b>&\",\"count\":9007199254740993}\n{\"name\":\"\",\"count\":0}\n",
		printed(output.NDJSON, nil, rows...))
	require.Equal(t, "- name: \"a<b>&\"\n  count: 9007199254740993\n- name: \"\"\n  count: 0\n",
		printed(output.YAML, nil, rows...))
}

func TestEmptyListsAreLists(t *testing.T) {
	require.Equal(t, "NAME  COUNT\n", printed(output.Table, nil))
	require.Equal(t, "[]\n", printed(output.JSON, nil))
	require.Empty(t, printed(output.NDJSON, nil))
	require.Equal(t, "[]\n", printed(output.YAML, nil))
}

// TestCellsCannotMoveTheCursor: names come from users, and a table is for a terminal.
func TestCellsCannotMoveTheCursor(t *testing.T) {
	for _, bad := range []string{"\x1b[2J", "\r", "\n", "\u009b", "\u202e", "\x7f", "\t"} {
		out := printed(output.Table, nil, row{Name: "x" + bad + "y"})
		require.Equal(t, 2, strings.Count(out, "\n"), "%q", bad)
		require.NotContains(t, strings.ReplaceAll(out, "\n", ""), bad)
	}
}

func TestErrorsSayCodeWhyAndDo(t *testing.T) {
	var b bytes.Buffer
	cause := errors.New("disk on fire")
	e := output.Environment("CANNOT_START", "it does not start").WithCause(cause).WithDo("one\ntwo")
	e.Render(&b)
	require.Equal(t, "error[CANNOT_START]: it does not start\n  why: disk on fire\n"+
		"  do:  one\n       two\n", b.String())
	require.ErrorIs(t, e, cause)
	require.Equal(t, output.ExitEnvironment, output.Explain(fmt.Errorf("while: %w", e)).Exit)
	require.Equal(t, output.ExitInterrupted, output.Explain(context.Canceled).Exit)
	require.Equal(t, output.ExitEnvironment, output.Explain(context.DeadlineExceeded).Exit)
	require.Equal(t, output.ExitFailure, output.Explain(cause).Exit)
	require.Nil(t, output.Explain(nil))
}

// TestProgressIsQuietWithoutATerminal: no bar, no cursor, and nothing at all for short work.
func TestProgressIsQuietWithoutATerminal(t *testing.T) {
	var out, notes bytes.Buffer
	p := output.NewPrinter(&out, &notes)
	g := p.NewProgress("work", 10, output.Records)
	g.Set(5)
	g.Clear()
	g.SetTotal(0)
	g.Set(20)
	g.Finish(20)
	g.Set(30)
	require.Empty(t, out.String())
	require.NotContains(t, notes.String(), "\r")
	require.NotContains(t, notes.String(), "\x1b")
}

func TestQuietLeavesOutNotesOnly(t *testing.T) {
	var out, notes bytes.Buffer
	p := output.NewPrinter(&out, &notes)
	p.Quiet = true
	p.Note("a note")
	require.NoError(t, p.Done(row{"a", 1}, "done %d", 1))
	require.Empty(t, notes.String())
	require.Empty(t, out.String())
	p.Format = output.NDJSON
	require.NoError(t, p.Done(row{"a", 1}, "done"))
	require.Equal(t, "{\"name\":\"a\",\"count\":1}\n", out.String())
}

func TestUnknownFormatNamesThoseThereAre(t *testing.T) {
	_, err := output.ParseFormat("xml")
	require.Equal(t, "use -o table|json|ndjson|yaml", output.Explain(err).Do)
}
