package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryPackageHasADocFile(t *testing.T) {
	documented := map[string]bool{}
	folders := map[string]bool{}
	for _, s := range sources(t) {
		if s.file.Name.Name == "main" || strings.Contains(s.folder(), "internal/deps") {
			continue
		}
		folders[s.folder()] = true
		if filepath.Base(s.path) == "doc.go" && s.file.Doc != nil {
			documented[s.folder()] = true
		}
	}
	var findings []string
	for f := range folders {
		if !documented[f] {
			findings = append(findings, f)
		}
	}
	slices.Sort(findings)
	report(t, "packages without doc.go", findings)
}

func TestExportedNamesAreDocumented(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		if s.isTest() || s.generated() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			findings = append(findings, undocumented(s, d)...)
		}
	}
	report(t, "exported names without a comment", findings)
}

func undocumented(s source, d ast.Decl) []string {
	var out []string
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() || slices.ContainsFunc(docs, hasText) {
			return
		}
		out = append(out, fmt.Sprintf("%s: %s", fset.Position(name.Pos()), name.Name))
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if receiverExported(d) {
			add(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name, d.Doc, spec.Doc)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					add(name, d.Doc, spec.Doc, spec.Comment)
				}
			}
		}
	}
	return out
}

func hasText(g *ast.CommentGroup) bool { return g != nil && strings.TrimSpace(g.Text()) != "" }

// receiverExported tells whether a method is reachable: one on an unexported type is documented by
// the interface it serves.
func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	expr := f.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// pathInProse matches a path of the project written in backquotes.
var pathInProse = regexp.MustCompile(
	"`((?:core|streams|plugins|connectors|pipelines|cli|examples)/[\\w./-]+)`")

func TestPathsInDesignNotesExist(t *testing.T) {
	dir := root(t)
	notes, err := filepath.Glob(filepath.Join(dir, "*", "DESIGN.md"))
	require.NoError(t, err)
	notes = append(notes, filepath.Join(dir, "README.md"))
	var findings []string
	for _, note := range notes {
		text, err := os.ReadFile(note)
		require.NoError(t, err)
		for _, m := range pathInProse.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				rel, _ := filepath.Rel(dir, note)
				findings = append(findings, rel+": "+m[1])
			}
		}
	}
	report(t, "paths that do not exist", findings)
}

func TestEveryTopFolderHasItsNotes(t *testing.T) {
	for _, folder := range []string{"core", "streams", "plugins", "connectors", "pipelines", "cli"} {
		require.FileExists(t, filepath.Join(root(t), folder, "DESIGN.md"))
		require.FileExists(t, filepath.Join(root(t), folder, "doc.go"))
	}
}

func TestTopLevelNamesAreTheDesigned(t *testing.T) {
	want := []string{"LICENSE", "README.md", "cli", "connectors", "core", "examples",
		"go.mod", "go.sum",
		"pipelines", "plugins", "streams"}
	entries, err := os.ReadDir(root(t))
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.Name() != "millstream-data" && e.Name() != "millstream" {
			got = append(got, e.Name())
		}
	}
	require.Equal(t, want, got)
}
