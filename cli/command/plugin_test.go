package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sourceRoot is the folder of this project, where the SDK is.
func sourceRoot(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.mod"))
	return dir
}

// TestPluginNewCompilesAndRuns writes each kind of plugin outside any module and builds it; build
// starts it too.
func TestPluginNewCompilesAndRuns(t *testing.T) {
	sdk := sourceRoot(t)
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // binaries of earlier runs prove nothing
	t.Setenv("GOCACHE", goCache(t))
	for _, kind := range pluginKinds {
		r := run(t, "plugin", "new", "ops/"+kind+"-it", "--kind", kind, "--sdk", sdk, "-o", "json")
		require.Zero(t, r.exit, r.err)
		require.Equal(t, written{kind + "-it",
			[]string{"ops/" + kind + "-it/main.go", "ops/" + kind + "-it/go.mod"}},
			decode[written](t, r.out))
		r = run(t, "plugin", "build", "ops/"+kind+"-it", "-o", "json", "--out", "bin-"+kind)
		require.Zero(t, r.exit, r.err)
		info := decode[pluginInfo](t, r.out)
		require.Equal(t, kind+"-it", info.Name)
		require.Equal(t, []partInfo{{Name: kind + "-it", Kind: "operator", Doc: info.Parts[0].Doc}},
			info.Parts)
		require.Len(t, info.SHA256, 64)
		require.FileExists(t, "bin-"+kind)
	}
	r := run(t, "plugin", "ls", "-o", "json")
	names := map[string]string{}
	for _, p := range decode[[]pluginInfo](t, r.out) {
		names[p.Name] = p.Kind
	}
	require.Equal(t, map[string]string{"file": "built-in", "generate": "built-in",
		"stdout": "built-in", "map-it": "source", "filter-it": "source", "flatmap-it": "source"}, names)
	require.Contains(t, run(t, "plugin", "ls").out, "map-it")
}

// goCache is where the go command keeps compiled packages; a test need not compile them anew.
func goCache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("GOCACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	return filepath.Join(home, ".cache", "go-build")
}

// TestPluginNewInsideAModule needs no go.mod of its own where one knows the SDK already.
func TestPluginNewInsideAModule(t *testing.T) {
	dir, err := os.MkdirTemp("testdata", "made-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	r := run(t, "plugin", "new", filepath.Join(dir, "deep", "mark"), "-o", "json")
	require.Zero(t, r.exit, r.err)
	require.Len(t, decode[written](t, r.out).Files, 1)
	r = run(t, "plugin", "build", filepath.Join(dir, "deep", "mark"))
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.out, "operator mark")
}

func TestPluginMistakesAreTold(t *testing.T) {
	sdk := sourceRoot(t)
	t.Chdir(t.TempDir())
	writeFile(t, "full/main.go", "package main\n")
	writeFile(t, "other/go.mod", "module other\n")
	t.Setenv("GOPROXY", "off") // what is missing must not be looked for elsewhere
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"plugin new some", 2, "error[SDK_UNKNOWN]"},
		{"plugin new some --kind sink", 2, "error[BAD_KIND]"},
		{"plugin new Some", 2, "error[BAD_NAME]"},
		{"plugin new some --sdk .", 2, "error[SDK_UNKNOWN]"},
		{"plugin new some --sdk other", 2, "error[SDK_UNKNOWN]"},
		{"plugin new full --sdk " + sdk, 5, "error[FILE_EXISTS]"},
		{"plugin build none", 2, "error[CANNOT_READ]"},
		{"plugin ls none", 2, "error[CANNOT_READ]"},
	} {
		r := run(t, strings.Fields(c.args)...)
		require.Equal(t, c.exit, r.exit, "%s: %s", c.args, r.err)
		require.Contains(t, r.err, c.want, c.args)
	}
	require.NoDirExists(t, "some", "what is refused leaves nothing behind")
	t.Setenv("PATH", "")
	for _, args := range []string{"plugin new other --sdk .", "plugin build full"} {
		r := run(t, strings.Fields(args)...)
		require.Equal(t, 3, r.exit, args)
		require.Contains(t, r.err, "error[NO_TOOLCHAIN]", args)
	}
}

// marked is a pipeline that sends what it makes up through the plugin in the folder mark.
const marked = `version: 1
pipeline: marked
plugins: {mark: {source: ./mark}}
sources: {ticks: {connector: generate, config: {rate: 50}, topic: ticks}}
steps: [{id: mark, plugin: {use: mark}}]
sinks: {out: {topic: marked-out}}
`

// TestDevRebuildsAPluginWhenItsSourceChanges also shows that an error of the compiler is told with
// its place, by lint and by a running dev, which goes on with the old binary.
func TestDevRebuildsAPluginWhenItsSourceChanges(t *testing.T) {
	sdk := sourceRoot(t)
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "pipeline.yaml"), marked)
	r := run(t, "plugin", "new", filepath.Join(dir, "mark"), "--sdk", sdk)
	require.Zero(t, r.exit, r.err)
	p := started(t, "dev", dir, "--data-dir", filepath.Join(t.TempDir(), "data"))
	p.prints(t, `"mark":true`)

	main := filepath.Join(dir, "mark", "main.go")
	source, err := os.ReadFile(main)
	require.NoError(t, err)
	edit := func(instead string) {
		writeFile(t, main, strings.Replace(string(source), "r.Set(c.Field, true)", instead, 1))
	}
	edit(`r.Set(c.Field, "two")`)
	p.prints(t, `"mark":"two"`)
	require.NotContains(t, p.err.String(), "refused")

	edit(`r.Set(c.Field, three)`)
	p.says(t, "refused; the running revision goes on")
	require.Regexp(t, `main\.go:\d+:\d+: undefined: three`, p.err.String())
	lint := run(t, "pipeline", "lint", file)
	require.Equal(t, 2, lint.exit)
	require.Regexp(t, `main\.go:\d+:\d+: undefined: three`, lint.out)
	require.Contains(t, lint.out, "pipeline.yaml:5:", "and where the pipeline uses it")
	build := run(t, "plugin", "build", filepath.Join(dir, "mark"))
	require.Equal(t, 2, build.exit)
	require.Contains(t, build.err, "error[PLUGIN_BUILD]")

	edit(`r.Set(c.Field, "four")`)
	p.prints(t, `"mark":"four"`)
	require.Zero(t, p.stop())
}
