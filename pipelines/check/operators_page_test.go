package check_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/streams"
)

const operatorsPage = "../../streams/OPERATORS.md"

// goNames are the calls of the Go DSL that a page may name.
func goNames() []string {
	names := []string{"Tumbling", "Hopping", "Sliding", "Sessions", "CountOf", "SourceOptions",
		"Options"}
	for _, x := range []any{&streams.Stream{}, &streams.Builder{}, &streams.Window{}} {
		t := reflect.TypeOf(x)
		for i := range t.NumMethod() {
			names = append(names, t.Elem().Name()+"."+t.Method(i).Name)
		}
	}
	return names
}

// yamlKeys are the keys that are built, as object.key in short.
func yamlKeys() []string {
	short := map[string]string{"the pipeline": "pipeline", "a source": "source", "a table": "table",
		"step": "steps", "join": "join", "aggregate": "aggregate", "window": "window"}
	var keys []string
	for _, o := range lang.Reference() {
		for _, k := range o.Keys {
			if k.NotYet == "" {
				keys = append(keys, short[o.Name]+"."+k.Key)
			}
		}
	}
	return keys
}

// proofs are the names of tests and of golden cases below the folders.
func proofs(t *testing.T) (tests, cases []string) {
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	golden := regexp.MustCompile(`(?m)^# (G\d+)\b`)
	for _, root := range []string{"../../streams", "../../pipelines"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txt") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range test.FindAllSubmatch(text, -1) {
				tests = append(tests, string(m[1]))
			}
			for _, m := range golden.FindAllSubmatch(text, -1) {
				cases = append(cases, string(m[1]))
			}
			return err
		}))
	}
	return tests, cases
}

// TestOperatorsPageIsTrue: everything that streams/OPERATORS.md names is there, and every operator
// and aggregator of the language is on it.
func TestOperatorsPageIsTrue(t *testing.T) {
	text, err := os.ReadFile(operatorsPage)
	require.NoError(t, err)
	tests, cases := proofs(t)
	calls, keys := goNames(), yamlKeys()
	var aggregators []string
	for _, a := range lang.Aggregators() {
		aggregators = append(aggregators, a.Name)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	var named []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			name := m[1]
			named = append(named, name)
			known := slices.Contains(tests, name) || slices.Contains(calls, name) ||
				slices.Contains(keys, name) || slices.Contains(aggregators, name) ||
				name == "by: offset"
			require.True(t, known, "there is no %s: %s", name, line)
		}
		for _, name := range regexp.MustCompile(`\bG\d+\b`).FindAllString(line, -1) {
			require.Contains(t, cases, name, line)
		}
	}
	for _, o := range lang.Reference() {
		if o.Name != "step" {
			continue
		}
		for _, k := range o.Keys {
			if !slices.Contains([]string{"id", "renamed_from", "from", "with", "on_error",
				"parallelism"}, k.Key) {
				require.Contains(t, named, "steps."+k.Key)
			}
		}
	}
	for _, name := range aggregators {
		require.Contains(t, named, name)
	}
	for _, call := range calls {
		if strings.HasPrefix(call, "Stream.") && !strings.HasPrefix(call, "Stream.To") {
			require.Contains(t, named, call)
		}
	}
}
