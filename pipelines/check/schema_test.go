package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/lang"
)

func languageSchema(t *testing.T) map[string]any {
	var schema map[string]any
	require.NoError(t, json.Unmarshal(lang.JSONSchema(), &schema))
	return schema
}

// TestLanguageSchemaAcceptsExamples: what lint accepts, an editor must not underline.
func TestLanguageSchemaAcceptsExamples(t *testing.T) {
	schema := languageSchema(t)
	require.Equal(t, "https://json-schema.org/draft/2020-12/schema", schema["$schema"])
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 5)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tree, findings := lang.ReadTree(file, text)
		require.Empty(t, findings)
		for _, f := range validate(schema, tree) {
			t.Errorf("%s: %s %s", f.at, f.message, f.hint)
		}
		p, findings := lang.Load(file, text, lang.Options{})
		_, findings = Check(p, findings, Options{})
		require.False(t, lang.HasErrors(findings), "%s", Render(findings, p.File))
	}
}

// TestLanguageSchemaRefuses: an editor shows the plain mistakes, at their places.
func TestLanguageSchemaRefuses(t *testing.T) {
	schema := languageSchema(t)
	for text, want := range map[string]string{
		"version: 1\npipeline: p\nstepz: []\n":                              "f:3:1",
		"version: 1\npipeline: P P\n":                                       "f:2:11",
		"version: 1\npipeline: p\nsources: {a: {topic: t, on_end: stop}}\n": "f:3:33",
		"version: 1\npipeline: p\nresources: {commit_interval: 3 s}\n":      "f:3:30",
		"version: 1\npipeline: p\nsources: {a: {topic: t, value: jsn}}\n":   "f:3:32",
		"version: 1\npipeline: p\nsteps: [{filter: a, merge: {}}]\n":        "f:3:28",
		"version: 1\npipeline: p\nsteps: [{filter: a, use: {}}]\n":          "f:3:26",
		"pipeline: p\nto: x\n":                                              "f:1:1",
	} {
		tree, _ := lang.ReadTree("f", []byte(text))
		faults := validate(schema, tree)
		require.NotEmpty(t, faults, text)
		require.Equal(t, want, faults[0].at.String(), text)
	}
}
