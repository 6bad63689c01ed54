package streamstest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/topology"
)

// engine is one way to run a golden case.
type engine interface {
	// feed takes one line of input and returns what it caused.
	feed(t *testing.T, line string) []string
}

// way is how golden cases are run.
type way struct {
	name string
	// step, order and join make the engine of a case.
	step, order, join func(t *testing.T, d *datadriven.TestData) engine
	// bubble runs the case by a clock of its own (testing/synctest).
	bubble bool
}

// ways are all of them. A case of testdata/golden runs in each without knowing of any.
func ways() []way {
	list := []way{{name: "operator", step: newBare, order: newOrder(onDriver(false)),
		join: newBareJoin}}
	for name, start := range map[string]func(*testing.T, *topology.Builder) runner{
		"topology": onDriver(false), "crash after each record": onDriver(true),
	} {
		list = append(list, way{name: name, step: newWhole(start), order: newOrder(start),
			join: newWholeJoin(start)})
	}
	for n := 1; n <= 3; n++ {
		list = append(list, way{name: fmt.Sprint("workers ", n), bubble: true,
			step: newWhole(onWorkers(n)), order: newOrder(onWorkers(n)),
			join: newWholeJoin(onWorkers(n))})
	}
	return list
}

// TestGoldensHoldInEveryWayToRun runs the cases of testdata/golden, which were worked out by hand
// from the rules of time and windows, in every way a step can be run. All ways must give what the
// file says.
func TestGoldensHoldInEveryWayToRun(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, w := range ways() {
		for _, file := range files {
			t.Run(w.name+"/"+filepath.Base(file), func(t *testing.T) {
				if !w.bubble {
					runGolden(t, file, w)
					return
				}
				synctest.Test(t, func(t *testing.T) { runGolden(t, file, w) })
			})
		}
	}
}

func runGolden(t *testing.T, file string, w way) {
	var e engine
	order := false
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "starts":
			return starts(t, d)
		case "order":
			e, order = w.order(t, d), true
			return "ok\n"
		case "streams", "stream-table", "tables", "foreign":
			e, order = w.join(t, d), false
			return "ok\n"
		case "aggregate", "join", "dedupe", "throttle", "punctuate":
			e, order = w.step(t, d), false
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
