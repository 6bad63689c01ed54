package command

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/lang"
)

func testTree() *cobra.Command {
	return newRootCommand(newApp(Streams{In: strings.NewReader(""), Out: &lockedBuffer{},
		Err: &lockedBuffer{}}))
}

// walk visits every command below cmd, hidden ones too.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		visit(sub)
		walk(sub, visit)
	}
}

func TestEveryLeafHasTwoExamplesThatParse(t *testing.T) {
	walk(testTree(), func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		if cmd.HasSubCommands() && cmd.Name() != "help" {
			return
		}
		examples := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		require.GreaterOrEqual(t, len(examples), 2, "%s needs two examples", cmd.CommandPath())
		for _, example := range examples {
			found, err := commandsIn(example)
			require.NoError(t, err, "example of %s: %s", cmd.CommandPath(), example)
			require.Contains(t, found, cmd.CommandPath(), "example: %s", example)
		}
	})
}

// commandsIn finds the commands of a shell line as far as running them: their flags and arguments
// are right.
func commandsIn(line string) ([]string, error) {
	line, _, _ = strings.Cut(line, " #")
	var found []string
	for part := range strings.SplitSeq(strings.ReplaceAll(line, "&&", "|"), "|") {
		words, err := splitLine(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(words, func(w string) bool { return w == ">" || w == "<" }); i >= 0 {
			words = words[:i]
		}
		if len(words) == 0 || words[0] != "millstream" {
			continue
		}
		path, err := Parse(words[1:])
		if err != nil {
			return nil, err
		}
		found = append(found, path)
	}
	return found, nil
}

// TestCommandsAndFlags compares all commands and flags with testdata/tree: what is renamed or
// removed breaks somebody's script, so it must be seen.
func TestCommandsAndFlags(t *testing.T) {
	datadriven.RunTest(t, "testdata/tree.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		root := testTree()
		flagsOf(&b, "every command", root.PersistentFlags())
		walk(root, func(cmd *cobra.Command) {
			if !cmd.HasSubCommands() {
				flagsOf(&b, strings.TrimPrefix(cmd.CommandPath(), "millstream ")+
					strings.TrimPrefix(cmd.Use, cmd.Name()), cmd.LocalNonPersistentFlags())
			}
		})
		return b.String()
	})
}

func flagsOf(b *strings.Builder, title string, flags *pflag.FlagSet) {
	fmt.Fprintf(b, "%s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		short := ""
		if f.Shorthand != "" {
			short = ", -" + f.Shorthand
		}
		fmt.Fprintf(b, "  --%s%s %s (%s)\n", f.Name, short, f.Value.Type(), f.DefValue)
	})
}

func TestCompletionScriptsAreMadeForEveryShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := run(t, "completion", shell)
		require.Zero(t, r.exit, r.err)
		require.Contains(t, r.out, "millstream", shell)
	}
	// What the scripts ask the binary while a user types; it must not need a broker.
	r := run(t, "__complete", "topic", "d")
	require.Zero(t, r.exit)
	require.Contains(t, r.out, "delete\t")
	require.Contains(t, r.out, "describe\t")
}

// TestCompletionKnowsTheNamesOfTheCluster asks as a shell does, of a broker and of none: then
// nothing is suggested, nothing is said, and the one who types does not wait.
func TestCompletionKnowsTheNamesOfTheCluster(t *testing.T) {
	c := startBroker(t, nil)
	t.Setenv("MILLSTREAM_BOOTSTRAP", c.address)
	c.ok("topic", "create", "orders", "typed-in", "users")
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("typed"))
	c.ok("pipeline", "apply", file, "--no-wait")
	for line, want := range map[string][]string{
		"topic describe ":       {"orders", "typed-in", "users"},
		"topic delete orders ":  {"typed-in", "users"},
		"topic describe users ": nil,
		"consume ":              {"orders", "typed-in", "users"},
		"pipeline status ":      {"typed"},
		"group describe ":       nil,
		"topic ls -o ":          {"table", "json", "ndjson", "yaml"},
	} {
		r := run(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.Zero(t, r.exit, line)
		suggested := strings.Split(strings.TrimSpace(r.out), "\n")
		require.ElementsMatch(t, want, suggested[:len(suggested)-1], "%q", line)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	for _, address := range []string{"127.0.0.1:1", silent.Addr().String()} {
		t.Setenv("MILLSTREAM_BOOTSTRAP", address)
		begin := time.Now()
		r := run(t, "__completeNoDesc", "consume", "")
		require.Equal(t, ":4\n", r.out)
		require.NotContains(t, r.err, "error[")
		require.Less(t, time.Since(begin), dialTimeout)
	}
}

// TestErrorCodesAreExplained reads the codes out of the source, so that `help errors` misses none
// and explains none that is gone.
func TestErrorCodesAreExplained(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{".", "../output"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				codesIn(t, path, used)
			}
			return err
		}))
	}
	delete(used, silentCode)
	explained := map[string]bool{}
	for _, c := range errorCodes {
		require.True(t, strings.HasSuffix(c.Meaning, "."), c.Code)
		explained[c.Code] = true
	}
	require.Equal(t, used, explained)
	require.True(t, slices.IsSortedFunc(errorCodes, func(a, b errorCode) int {
		return strings.Compare(a.Code, b.Code)
	}), "by name")
}

// codesIn finds the first arguments of the constructors of errors, and the Code of literal ones.
func codesIn(t *testing.T, path string, used map[string]bool) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	constructors := []string{"Usage", "Failure", "Environment", "Negative", "Conflict"}
	ast.Inspect(file, func(n ast.Node) bool {
		var literal ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			name, ok := n.Fun.(*ast.SelectorExpr)
			ident, plain := n.Fun.(*ast.Ident)
			if ok && slices.Contains(constructors, name.Sel.Name) ||
				plain && slices.Contains(constructors, ident.Name) {
				literal = n.Args[0]
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
				literal = n.Value
			}
		}
		if text, ok := literal.(*ast.BasicLit); ok && text.Kind == token.STRING {
			code, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			used[code] = true
		}
		return true
	})
}

func TestHelpErrorsKnowsEveryFinding(t *testing.T) {
	out := run(t, "help", "errors", "-o", "json").out
	listed := decode[[]errorCode](t, out)
	codes := map[string]bool{}
	for _, c := range listed {
		codes[c.Code] = true
	}
	for _, code := range []lang.Code{lang.CodeSyntax, lang.CodeUnknownKey, lang.CodeBadName} {
		require.True(t, codes[string(code)], code)
	}
	require.True(t, codes["STALE_PLAN"])
}
