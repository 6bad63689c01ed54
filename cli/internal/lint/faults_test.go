package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pages of faults are tables of what can go wrong and which test shows that it does no harm. A
// test that was renamed or removed would leave a row without its proof. The number is how many rows
// a page has at least.
var faultsPages = map[string]int{"core/FAULTS.md": 60, "streams/FAULTS.md": 50}

var (
	// testInTable matches a test of a package below core, such as `storage.TestX` or `core.TestY`, or
	// of any other one, by its folder: `streams/task.TestZ`.
	testInTable = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	// commandInTable matches a check of its own.
	commandInTable = regexp.MustCompile("`(\\.ci/[\\w/-]+)")
	// mutantInTable matches a rule of .ci/faults/mutants.
	mutantInTable = regexp.MustCompile(`“([^”]+)”`)
)

func TestFaultsHaveTheirTests(t *testing.T) {
	declared := map[string]bool{}
	for _, s := range sources(t) {
		for _, name := range testFunctions(s) {
			folder := strings.TrimPrefix(s.folder(), "core/")
			declared[folder+"."+name] = true
		}
	}
	rules := mutantRules(t)
	for page, least := range faultsPages {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		require.NoError(t, err)
		rows, findings := faultRows(t, page, string(text), declared, rules)
		report(t, "rows without their proof", findings)
		require.Greater(t, rows, least, page)
	}
}

// faultRows counts the rows of a page and tells what is wrong with them.
func faultRows(t *testing.T, page, text string, declared, rules map[string]bool,
) (rows int, findings []string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(cells[0], " fault ") ||
			strings.HasPrefix(cells[0], " rule ") {
			continue
		}
		rows++
		at := fmt.Sprintf("%s:%d: ", page, i+1)
		if len(cells) != 4 {
			findings = append(findings, at+"a row has four cells: fault, what holds, test, taken out")
			continue
		}
		tests := testInTable.FindAllStringSubmatch(cells[2], -1)
		commands := commandInTable.FindAllStringSubmatch(cells[2], -1)
		if len(tests)+len(commands) == 0 {
			findings = append(findings, at+"no test")
		}
		for _, m := range tests {
			if !declared[m[1]+"."+m[2]] {
				findings = append(findings, at+"no such test: "+m[1]+"."+m[2])
			}
		}
		for _, m := range commands {
			if _, err := os.Stat(filepath.Join(root(t), m[1])); err != nil {
				findings = append(findings, at+"no such command: "+m[1])
			}
		}
		for _, m := range mutantInTable.FindAllStringSubmatch(cells[3], -1) {
			if !rules[m[1]] {
				findings = append(findings, at+"no such mutant: "+m[1])
			}
		}
		if strings.TrimSpace(cells[3]) == "" {
			findings = append(findings, at+"what breaks without the rule?")
		}
	}
	return rows, findings
}

// testFunctions returns the tests and fuzz targets of a file.
func testFunctions(s source) (names []string) {
	if !s.isTest() {
		return nil
	}
	for _, name := range functionNames(s.file) {
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
			names = append(names, name)
		}
	}
	return names
}

// mutantRules returns the rules that .ci/faults/mutants breaks.
func mutantRules(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), ".ci/faults/mutate/rules*.go"))
	require.NoError(t, err)
	rules := map[string]bool{}
	entry := regexp.MustCompile(`(?m)^\t\{"((?:[^"\\]|\\.)*)", "(?:core|streams|pipelines)/`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
			rules[m[1]] = true
		}
	}
	require.NotEmpty(t, rules)
	return rules
}

// functionNames returns the functions of a file, without methods.
func functionNames(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
