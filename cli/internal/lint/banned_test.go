package lint

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// ban is a call that belongs elsewhere.
type ban struct {
	call    string   // package.Function, or package.* for all of it
	within  []string // folders it is banned in
	except  []string // folders it is allowed in all the same
	tests   bool     // banned in tests too
	instead string
}

var bans = []ban{
	{call: "time.Sleep", within: []string{""}, tests: true,
		instead: "wait for a condition, or use testing/synctest"},
	{call: "os.*", within: []string{"core"}, except: []string{"core/vfs"},
		instead: "core/vfs, so that every disk fault can be produced"},
	{call: "net.Dial", within: []string{"core", "streams"}, except: []string{"core/vnet"},
		instead: "core/vnet, so that every network fault can be produced"},
	{call: "net.Listen", within: []string{"core", "streams"}, except: []string{"core/vnet"},
		instead: "core/vnet, so that every network fault can be produced"},
	{call: "fmt.Print", within: []string{""}, except: []string{"plugins", "examples"},
		instead: "the Printer of cli/output, or a *slog.Logger"},
	{call: "fmt.Println", within: []string{""}, except: []string{"plugins", "examples"},
		instead: "the Printer of cli/output, or a *slog.Logger"},
	{call: "fmt.Printf", within: []string{""}, except: []string{"plugins", "examples"},
		instead: "the Printer of cli/output, or a *slog.Logger"},
	{call: "log.*", within: []string{""}, instead: "a *slog.Logger from Options"},
	{call: "os.Exit", within: []string{""},
		except: []string{"cli/millstream", "plugins/sdk", "plugins", "connectors",
			"examples"},
		instead: "return an error; only main exits"},
}

// constants of os that are only numbers, not disk access.
var harmless = map[string]bool{
	"os.O_RDONLY": true, "os.O_RDWR": true, "os.O_CREATE": true, "os.O_WRONLY": true,
	"os.O_EXCL": true, "os.O_TRUNC": true, "os.O_APPEND": true, "os.ErrNotExist": true,
	"os.ErrExist": true, "os.FileMode": true, "os.ErrClosed": true, "os.Getpid": true,
	"os.ErrDeadlineExceeded": true,
}

func TestBannedCallsGoThroughTheirPorts(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		for _, b := range bans {
			if b.applies(s) {
				findings = append(findings, b.find(s)...)
			}
		}
	}
	report(t, "banned calls", findings)
}

func (b ban) applies(s source) bool {
	return (b.tests || !s.isTest()) && inAny(s.folder(), b.within) && !inAny(s.folder(), b.except)
}

func inAny(folder string, list []string) bool {
	for _, f := range list {
		if f == "" || folder == f || strings.HasPrefix(folder, f+"/") {
			return true
		}
	}
	return false
}

func (b ban) find(s source) []string {
	if b.call == "time.Sleep" && importedAs(s.file, "testing/synctest") != "" {
		return nil // time is fake there, so nothing waits
	}
	pkg, name, _ := strings.Cut(b.call, ".")
	local := importedAs(s.file, pkg)
	if local == "" {
		return nil
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && x.Name == local && x.Obj == nil && (name == "*" || sel.Sel.Name == name) &&
			!harmless[pkg+"."+sel.Sel.Name] {
			out = append(out, fmt.Sprintf("%s: %s.%s: use %s",
				fset.Position(sel.Pos()), pkg, sel.Sel.Name, b.instead))
		}
		return true
	})
	return out
}

// importedAs gives the name a file uses for a standard package, or nothing if it does not import
// it.
func importedAs(f *ast.File, path string) string {
	for _, imp := range f.Imports {
		if strings.Trim(imp.Path.Value, `"`) != path {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return path
	}
	return ""
}
