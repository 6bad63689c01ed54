package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/millstream-io/millstream"

// source is one Go file of the project.
type source struct {
	path string // from the repository's root, with slashes
	text []byte
	file *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) generated() bool {
	return strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, "_gen.go")
}

// folder is the package's path from the root.
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

var fset = token.NewFileSet()

var loadSources = sync.OnceValues(func() ([]source, error) {
	root, err := repoRoot()
	if err != nil {
		return nil, err
	}
	var all []source
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "out") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{rel, text, file})
		return nil
	})
	return all, err
})

// sources gives every Go file outside testdata.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := loadSources()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// repoRoot is the folder that holds go.mod.
func repoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := repoRoot()
	require.NoError(t, err)
	return dir
}

// report fails the test once with all findings, which is quicker to work through than one at a
// time.
func report(t *testing.T, rule string, findings []string) {
	t.Helper()
	if len(findings) > 0 {
		t.Errorf("%s (%d):\n  %s", rule, len(findings), strings.Join(findings, "\n  "))
	}
}
