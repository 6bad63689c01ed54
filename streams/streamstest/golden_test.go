package streamstest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// engine is one way to run a golden case.
type engine interface {
	// feed takes one line of input and returns what it caused.
	feed(t *testing.T, line string) []string
}

// TestGoldensHoldInEveryWayToRun runs the cases of testdata/golden, which were worked out by hand
// from the rules of time and windows, in every way a step can be run. All ways must give what the
// file says.
func TestGoldensHoldInEveryWayToRun(t *testing.T) {
	modes := map[string]func(t *testing.T, d *datadriven.TestData) engine{
		"operator": func(t *testing.T, d *datadriven.TestData) engine { return newBare(t, d) },
		"topology": func(t *testing.T, d *datadriven.TestData) engine {
			return newWhole(t, d, false)
		},
		"crash after each record": func(t *testing.T, d *datadriven.TestData) engine {
			return newWhole(t, d, true)
		},
	}
	files, err := filepath.Glob("testdata/golden/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for mode, make := range modes {
		for _, file := range files {
			t.Run(mode+"/"+filepath.Base(file), func(t *testing.T) { runGolden(t, file, make) })
		}
	}
}

func runGolden(t *testing.T, file string,
	make func(t *testing.T, d *datadriven.TestData) engine) {
	var e engine
	order := false
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "starts":
			return starts(t, d)
		case "order":
			e, order = newOrder(t, d), true
			return "ok\n"
		case "aggregate", "join":
			e, order = make(t, d), false
			return "ok\n"
		}
		require.Equal(t, "feed", d.Cmd)
		var out, all []string
		for _, line := range strings.Split(d.Input, "\n") {
			got := e.feed(t, line)
			all = append(all, got...)
			out = append(out, strings.TrimRight(line+" => "+strings.Join(got, ", "), " "))
		}
		if order {
			return strings.Join(all, " ") + "\n"
		}
		return strings.Join(out, "\n") + "\n"
	})
}
