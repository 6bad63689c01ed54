package check_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
)

// catalog is a small world: the connectors file (both ways) and generate (a source), and a plugin
// fraud with the operator score.
type catalog struct{}

const fileSchema = `{"type": "object", "required": ["path"], "additionalProperties": false,
	"properties": {
		"path": {"type": "string", "description": "file to read or write"},
		"format": {"type": "string", "enum": ["ndjson", "csv", "lines"]},
		"batch": {"type": "integer", "minimum": 1},
		"follow": {"type": "boolean"}}}`

const scoreSchema = `{"type": "object", "additionalProperties": false,
	"properties": {"threshold": {"type": "number", "maximum": 1}}}`

func (catalog) Connectors(role check.Role) []string {
	if role == check.RoleSource {
		return []string{"file", "generate"}
	}
	return []string{"file"}
}

func (c catalog) Connector(name string, role check.Role) (*check.Component, error) {
	for _, known := range c.Connectors(role) {
		if name == known {
			return &check.Component{ConfigSchema: json.RawMessage(fileSchema), Exact: true,
				Deterministic: true, Validate: noSuchPath}, nil
		}
	}
	return nil, check.ErrUnknown
}

func noSuchPath(config []byte) []check.Diagnostic {
	if strings.Contains(string(config), "/no/such") {
		return []check.Diagnostic{{Pointer: "/path", Message: "no such file"}}
	}
	return nil
}

func (catalog) Operator(plugin check.PluginRef, operator string) (*check.Component, error) {
	switch {
	case plugin.Source == "./broken":
		return nil, errors.New("it does not start")
	case plugin.Source == "./frauds":
		return nil, &check.NoSourceError{Source: plugin.Source, Near: "./fraud"}
	case plugin.Source != "./fraud":
		return nil, nil
	case operator != "score" && operator != "":
		return nil, check.ErrUnknown
	}
	return &check.Component{ConfigSchema: json.RawMessage(scoreSchema), Deterministic: true,
		Output: &expression.Type{Kind: expression.KindObject, Fields: []expression.Field{
			{Name: "score", Type: &expression.Type{Kind: expression.KindFloat}}}}}, nil
}

// environment is what ${env:…} sees in the cases.
func environment(name string) (string, bool) {
	v, ok := map[string]string{"X": "x", "BATCH": "7", "WORD": "word"}[name]
	return v, ok
}

// TestMistakes runs the table of mistakes: each case shows every finding with its exact place.
// The caret under the line is there to be read: a new golden is right only if the caret is.
func TestMistakes(t *testing.T) {
	cases := 0
	datadriven.Walk(t, "testdata/mistakes", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			cases++
			vars := map[string]string{}
			for _, arg := range d.CmdArgs {
				if arg.Key == "var" {
					name, value, _ := strings.Cut(arg.Vals[0], "=")
					vars[name] = value
				}
			}
			opts := lang.Options{Env: environment, Vars: vars}
			_, tree, findings := plan.Compile("p.yaml", []byte(d.Input+"\n"), opts,
				check.Options{Catalog: catalog{}})
			for _, f := range findings {
				require.NotZero(t, f.Line, f.Message)
				require.NotEmpty(t, f.Message)
				_, known := check.Explain(f.Code)
				require.True(t, known, f.Code)
			}
			return check.Render(findings, tree.File)
		})
	})
	require.GreaterOrEqual(t, cases, 40)
}
