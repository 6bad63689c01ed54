package check_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

const referencePage = "../REFERENCE.md"

// TestReferenceIsTrue compares pipelines/REFERENCE.md with the tables of the language. Write it
// anew with:
//
// go test ./pipelines/check -run Reference -rewrite
func TestReferenceIsTrue(t *testing.T) {
	var page strings.Builder
	fmt.Fprint(&page, "# Reference of pipeline files\n\nMade by a test from the tables in `lang`, ",
		"`expression` and `check`; do not edit. How things work is in [DESIGN.md](DESIGN.md).\n")
	for _, o := range lang.Reference() {
		writeObject(t, &page, o)
	}
	writeAggregators(&page)
	writeFunctions(&page)
	fmt.Fprint(&page, "\n## Findings\n\n| code | meaning |\n|---|---|\n")
	for _, c := range check.Codes() {
		fmt.Fprintf(&page, "| %s | %s |\n", c.Code, cell(c.Meaning))
	}
	if flag.Lookup("rewrite").Value.String() == "true" { // the flag of datadriven
		require.NoError(t, os.WriteFile(referencePage, []byte(page.String()), 0o644))
	}
	got, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(got), "write it anew with -rewrite")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

func writeObject(t *testing.T, page *strings.Builder, o lang.ObjectDoc) {
	title := strings.TrimPrefix(strings.TrimPrefix(o.Name, "the "), "a ")
	fmt.Fprintf(page, "\n## %s\n\n%s.\n\n", strings.ToUpper(title[:1])+title[1:], o.Doc)
	fmt.Fprint(page, "| key | meaning | type | default | example |\n|---|---|---|---|---|\n")
	var later []string
	for _, k := range o.Keys {
		if k.NotYet != "" {
			later = append(later, fmt.Sprintf("`%s:` (%s)", k.Key, k.NotYet))
			continue
		}
		require.NotEmpty(t, k.Doc, "%s.%s", o.Name, k.Key)
		def := code(k.Default)
		if k.Required {
			def = "must be there"
		}
		example := ""
		if k.Example != "" {
			example = code(k.Key + ": " + k.Example)
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", k.Key, cell(k.Doc), cell(k.Type), def,
			example)
	}
	if len(later) > 0 {
		fmt.Fprintf(page, "\nNot built: %s.\n", strings.Join(later, "; "))
	}
}

func writeAggregators(page *strings.Builder) {
	fmt.Fprint(page, "\n## Aggregators\n\nWhat the values under `fields:` of an aggregate may be.\n\n",
		"| aggregator | gives | example |\n|---|---|---|\n")
	for _, a := range lang.Aggregators() {
		fmt.Fprintf(page, "| `%s` | %s | `%s` |\n", a.Name, cell(a.Doc), a.Example)
	}
}

func writeFunctions(page *strings.Builder) {
	fmt.Fprint(page, "\n## Functions\n\nExpressions see `key`, `value`, `headers`, `timestamp`, ",
		"`topic`, `partition`, `offset`, `vars`, the rows of joins by their names,\nand behind ",
		"windows `window.start` and `window.end`. What is missing is `nil`: `value.a ?? 0`, ",
		"`value.a?.b`.\n\n| function | gives | example | result |\n|---|---|---|---|\n")
	for _, f := range expression.AllFunctions() {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", cell(f.Signature), cell(f.Doc), code(f.Example),
			code(f.Result))
	}
}
