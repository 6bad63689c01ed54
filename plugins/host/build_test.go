//go:build linux

package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

// project makes a module with a program and a package of its own.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

const module = "module example.com/plug\n\ngo 1.26\n"

func TestBuildCachesByContent(t *testing.T) {
	cache := t.TempDir()
	dir := project(t, map[string]string{
		"go.mod": module, "dep/dep.go": "package dep\n\nconst N = 1\n",
		"main.go": "package main\n\nimport (\n\t_ \"embed\"\n\n\t\"example.com/plug/dep\"\n)\n\n" +
			"//go:embed data/x.txt\nvar x string\n\nfunc main() { _, _ = dep.N, x }\n",
		"data/x.txt": "1",
	})
	build := func() host.Binary {
		t.Helper()
		b, err := host.Build(t.Context(), dir, host.BuildOptions{CacheDir: cache})
		require.NoError(t, err)
		return b
	}
	first := build()
	require.False(t, first.Cached)
	sum, err := host.Checksum(first.Path)
	require.NoError(t, err)
	require.Equal(t, sum, first.SHA256)
	info, err := os.Stat(first.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), info.Mode().Perm())

	again := build()
	require.True(t, again.Cached)
	require.Equal(t, first.Path, again.Path)

	change := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	change("main_test.go", "package main\n") // no part of the program
	change("notes.txt", "hello")
	require.True(t, build().Cached)
	for name, text := range map[string]string{
		"dep/dep.go": "package dep\n\nconst N = 2\n", "data/x.txt": "2", "more.go": "package main\n",
		"go.mod": module + "\n// changed\n",
	} {
		change(name, text)
		b := build()
		require.False(t, b.Cached, name)
		require.NotEqual(t, first.Path, b.Path)
		require.True(t, build().Cached, name)
	}
	require.NoError(t, os.Remove(build().Path))
	require.False(t, build().Cached) // a cache somebody cleaned
}

// A data directory is often a relative name: the cache in it is where the caller sees it, not
// where the go command runs.
func TestBuildInRelativeCache(t *testing.T) {
	dir := project(t, map[string]string{"go.mod": module, "a.go": "package main\n\nfunc main() {}\n"})
	t.Chdir(t.TempDir())
	for _, cached := range []bool{false, true} {
		b, err := host.Build(t.Context(), dir, host.BuildOptions{CacheDir: "data/plugins"})
		require.NoError(t, err)
		require.Equal(t, cached, b.Cached)
		require.True(t, filepath.IsAbs(b.Path))
		sum, err := host.Checksum(b.Path)
		require.NoError(t, err)
		require.Equal(t, b.SHA256, sum)
	}
	require.NoDirExists(t, filepath.Join(dir, "data"))
}

// Two pipelines may need a plugin at the same moment.
func TestBuildConcurrently(t *testing.T) {
	dir := project(t, map[string]string{"go.mod": module, "a.go": "package main\n\nfunc main() {}\n"})
	cache := t.TempDir()
	errs := make(chan error)
	for range 4 {
		go func() {
			b, err := host.Build(t.Context(), dir, host.BuildOptions{CacheDir: cache})
			if err == nil {
				_, err = os.Stat(b.Path)
			}
			errs <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	left, err := filepath.Glob(filepath.Join(cache, "bin", "*", "build-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBuildReportsCompileErrors(t *testing.T) {
	dir := project(t, map[string]string{
		"go.mod": module, "main.go": "package main\n\nfunc main() {\n\tx := 1\n\tundefined()\n}\n",
	})
	_, err := host.Build(t.Context(), dir, host.BuildOptions{CacheDir: t.TempDir()})
	var failed *host.BuildError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, []host.CompileError{
		{File: "main.go", Line: 4, Col: 2, Message: "declared and not used: x"},
		{File: "main.go", Line: 5, Col: 2, Message: "undefined: undefined"},
	}, failed.Errors)
	require.ErrorContains(t, err, "main.go:4:2: declared and not used: x")
}

func TestBuildOtherFaults(t *testing.T) {
	ctx := t.Context()
	o := host.BuildOptions{CacheDir: t.TempDir()}
	_, err := host.Build(ctx, filepath.Join(t.TempDir(), "none"), o)
	require.ErrorContains(t, err, "not a directory")
	_, err = host.Build(ctx, project(t, map[string]string{"go.mod": module,
		"a.go": "package lib\n"}), o)
	require.ErrorContains(t, err, "package lib is not a program")
	_, err = host.Build(ctx, project(t, map[string]string{"go.mod": module}), o)
	require.ErrorContains(t, err, "no Go files")
	_, err = host.Build(ctx, project(t, map[string]string{"go.mod": module,
		"a.go": "package main\n\nfunc {"}), o)
	require.ErrorContains(t, err, "a.go:3:6: syntax error")
	_, err = host.Build(ctx, t.TempDir(), host.BuildOptions{CacheDir: t.TempDir(), Go: "no-such-go"})
	require.ErrorContains(t, err, "the go command is not in PATH")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = host.Build(cancelled, project(t, map[string]string{"go.mod": module,
		"a.go": "package main\n"}), o)
	require.ErrorIs(t, err, context.Canceled)
}

func TestBuildThisModulesPlugin(t *testing.T) {
	cache := t.TempDir()
	b, err := host.Build(t.Context(), "testdata/echo", host.BuildOptions{CacheDir: cache})
	require.NoError(t, err)
	p, err := host.Start(t.Context(), host.Options{
		Name: "echo", Command: host.Command{Path: b.Path, SHA256: b.SHA256},
	})
	require.NoError(t, err)
	require.Equal(t, "echo", p.Spec().Name)
	require.NoError(t, p.Close())
	raw, err := os.ReadFile(onlyFile(t, filepath.Join(cache, "manifest")))
	require.NoError(t, err)
	require.True(t, strings.Contains(string(raw), "plugins/sdk"), "a change of the SDK must rebuild")
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return filepath.Join(dir, entries[0].Name())
}

// BenchmarkBuildUnchanged is what every start of a pipeline with a plugin in sources pays.
func BenchmarkBuildUnchanged(b *testing.B) {
	o := host.BuildOptions{CacheDir: b.TempDir()}
	_, err := host.Build(b.Context(), "testdata/echo", o)
	require.NoError(b, err)
	for b.Loop() {
		bin, err := host.Build(b.Context(), "testdata/echo", o)
		require.NoError(b, err)
		require.True(b, bin.Cached)
	}
}

// BenchmarkStart is the time from nothing to a plugin that told its Spec, and to its end.
func BenchmarkStart(b *testing.B) {
	bin := buildPlugin(b, "echo")
	var start time.Duration
	for b.Loop() {
		began := time.Now()
		p, err := host.Start(b.Context(), host.Options{Name: "echo", Command: host.Command{Path: bin}})
		require.NoError(b, err)
		start += time.Since(began)
		require.NoError(b, p.Close())
	}
	b.ReportMetric(float64(start.Milliseconds())/float64(b.N), "ms/start")
}
