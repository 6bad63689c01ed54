package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
	var findings []string
	for _, note := range designNotes(t) {
		for _, m := range pathInProse.FindAllStringSubmatch(note.text, -1) {
			if _, err := os.Stat(filepath.Join(root(t), m[1])); err != nil {
				findings = append(findings, note.path+": "+m[1])
			}
		}
	}
	report(t, "paths that do not exist", findings)
}

// fileInProse matches the name of a source file, with folders before it if they are written. An
// ellipsis or a pattern (NN_name.go) is no file's name.
var fileInProse = regexp.MustCompile(`(?:^|[^\w/.…-])((?:[\w.-]+/)*[\w.-]+\.(?:go|proto))\b`)

// A note may name a file from the root, from its top folder, or from its own folder; a design page,
// which tells of a whole top folder, also by the bare name.
func TestFilesNamedInNotesExist(t *testing.T) {
	notes := designNotes(t)
	for _, s := range sources(t) {
		if filepath.Base(s.path) == "doc.go" && s.file.Doc != nil {
			notes = append(notes, note{s.path, s.file.Doc.Text()})
		}
	}
	var findings []string
	for _, n := range notes {
		top, _, _ := strings.Cut(n.path, "/")
		for _, m := range fileInProse.FindAllStringSubmatch(n.text, -1) {
			name := m[1]
			if strings.HasPrefix(filepath.Base(name), "NN_") || filepath.Base(name) == "doc.go" {
				continue
			}
			if !namesAFile(root(t), top, n.path, name) {
				findings = append(findings, n.path+": "+name)
			}
		}
	}
	report(t, "files that do not exist", findings)
}

func namesAFile(root, top, note, name string) bool {
	places := []string{"", top, filepath.Dir(note)}
	if filepath.Base(note) == "DESIGN.md" {
		places = append(places, filepath.Join(top, "*"), filepath.Join(top, "*", "*"))
	}
	for _, place := range places {
		if found, err := filepath.Glob(filepath.Join(root, place, name)); err == nil && found != nil {
			return true
		}
	}
	return false
}

// maxNoteColumns keeps design pages readable side by side with the code.
const maxNoteColumns = 125

func TestDesignNotesAreNarrow(t *testing.T) {
	var findings []string
	for _, note := range designNotes(t) {
		if note.path == "README.md" { // read as a page, not beside the code
			continue
		}
		for i, line := range strings.Split(note.text, "\n") {
			if w := utf8.RuneCountInString(line); w > maxNoteColumns {
				findings = append(findings, fmt.Sprintf("%s:%d: %d columns", note.path, i+1, w))
			}
		}
	}
	report(t, fmt.Sprintf("lines of at most %d columns", maxNoteColumns), findings)
}

// note is a page of prose about the code.
type note struct {
	path string // from the repository's root, with slashes
	text string
}

// designNotes gives the DESIGN.md of each top folder and the README.
func designNotes(t *testing.T) []note {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root(t), "*", "DESIGN.md"))
	require.NoError(t, err)
	var notes []note
	for _, path := range append(paths, filepath.Join(root(t), "README.md")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		rel, err := filepath.Rel(root(t), path)
		require.NoError(t, err)
		notes = append(notes, note{filepath.ToSlash(rel), string(text)})
	}
	return notes
}

func TestEveryTopFolderHasItsNotes(t *testing.T) {
	for _, folder := range []string{"core", "streams", "plugins", "connectors", "pipelines", "cli",
		"examples"} {
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

// A reader must learn from doc.go which goroutines a package starts, and who ends them.
func TestPackagesTellTheirGoroutines(t *testing.T) {
	starts, told := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || s.generated() || s.file.Name.Name == "main" {
			continue
		}
		if filepath.Base(s.path) == "doc.go" && s.file.Doc != nil {
			_, rest, ok := strings.Cut(s.file.Doc.Text(), "# Goroutines\n")
			rest = strings.TrimSpace(rest)
			told[s.folder()] = ok && (!strings.HasPrefix(rest, "None") ||
				strings.HasPrefix(rest, "None of its own.") || strings.HasPrefix(rest, "None, but"))
		}
		if at := goStatement(s.file); at != nil {
			starts[s.folder()] = fset.Position(at.Pos()).String()
		}
	}
	var findings []string
	for _, folder := range slices.Sorted(maps.Keys(starts)) {
		if !told[folder] {
			findings = append(findings, folder+": starts one at "+starts[folder])
		}
	}
	report(t, "packages whose doc.go does not tell their goroutines", findings)
}

// goStatement returns the first place of a file that starts a goroutine, by go or by a method Go.
func goStatement(f *ast.File) (at ast.Node) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = n
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				at = n
			}
		}
		return at == nil
	})
	return at
}
