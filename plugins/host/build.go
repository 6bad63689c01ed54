package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Binary is a built plugin.
type Binary struct {
	Path   string // in the cache, named by what it was built from; never changed
	SHA256 string // for Command.SHA256
	Cached bool   // nothing had to be built
}

// BuildOptions say where builds are kept.
type BuildOptions struct {
	// CacheDir holds binaries and what they were built from; "" = millstream/plugins in the user's
	// cache directory.
	CacheDir string
	// Go is the go command; "" = "go" from PATH.
	Go string
}

// manifest remembers what a directory was built from, so that the next check needs no go command.
type manifest struct {
	Dirs   []string // directories of the packages outside the module cache and the Go tree
	Files  []string // go.mod, go.sum, go.work and embedded files
	Key    string   // hash over all that
	Binary string
	SHA256 string
}

// Build compiles the Go program in dir into the cache and returns the binary. Sources that did
// not change since the last build are not built again; finding that out takes a few
// milliseconds. Errors of the compiler are a *BuildError with file and line.
func Build(ctx context.Context, dir string, o BuildOptions) (Binary, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binary{}, fmt.Errorf("build plugin in %s: %w", dir, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return Binary{}, fmt.Errorf("build plugin in %s: not a directory", dir)
	}
	if o.CacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return Binary{}, fmt.Errorf("find the cache for built plugins: %w", err)
		}
		o.CacheDir = filepath.Join(base, "millstream", "plugins")
	}
	// The go command runs in dir and would take a relative name from there.
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return Binary{}, fmt.Errorf("find the cache for built plugins: %w", err)
	}
	if o.Go == "" {
		o.Go = "go"
	}
	b := builder{dir: dir, cache: o.CacheDir}
	if b.goTool, err = exec.LookPath(o.Go); err != nil {
		return Binary{}, fmt.Errorf("build plugin in %s: the go command is not in PATH; "+
			"install Go or use a built plugin", dir)
	}
	sum := sha256.Sum256([]byte(dir))
	b.manifest = filepath.Join(o.CacheDir, "manifest", hex.EncodeToString(sum[:8])+".json")
	if bin, ok := b.cached(); ok {
		return bin, nil
	}
	return b.build(ctx)
}

type builder struct {
	dir, cache, goTool, manifest string
}

// cached returns the binary of the last build if nothing it was built from changed.
func (b *builder) cached() (Binary, bool) {
	raw, err := os.ReadFile(b.manifest)
	var m manifest
	if err != nil || json.Unmarshal(raw, &m) != nil || m.Binary == "" {
		return Binary{}, false
	}
	key, err := b.key(&m)
	if err != nil || key != m.Key {
		return Binary{}, false
	}
	if info, err := os.Stat(m.Binary); err != nil || !info.Mode().IsRegular() {
		return Binary{}, false
	}
	return Binary{Path: m.Binary, SHA256: m.SHA256, Cached: true}, true
}

// key hashes the sources, the go command and the settings that change what it makes.
func (b *builder) key(m *manifest) (string, error) {
	h := sha256.New()
	tool, err := os.Stat(b.goTool)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "go %s %d %d\n", b.goTool, tool.Size(), tool.ModTime().UnixNano())
	for _, k := range []string{"GOFLAGS", "GOOS", "GOARCH", "GOAMD64", "CGO_ENABLED",
		"GOEXPERIMENT", "GOTOOLCHAIN", "GOWORK"} {
		fmt.Fprintf(h, "%s=%s\n", k, os.Getenv(k))
	}
	add := func(path string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		fmt.Fprintf(h, "%s %x\n", path, sum)
		return nil
	}
	for _, dir := range m.Dirs {
		entries, err := os.ReadDir(dir) // sorted by name
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !sourceFile(e.Name()) {
				continue
			}
			if err := add(filepath.Join(dir, e.Name())); err != nil {
				return "", err
			}
		}
	}
	for _, f := range m.Files {
		if err := add(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sourceFile says whether the go command may compile a file of that name.
func sourceFile(name string) bool {
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".s", ".S", ".c", ".h", ".syso":
		return true
	}
	return false
}

func (b *builder) build(ctx context.Context) (Binary, error) {
	m, err := b.list(ctx)
	if err != nil {
		return Binary{}, err
	}
	if m.Key, err = b.key(m); err != nil {
		return Binary{}, fmt.Errorf("hash the sources of plugin in %s: %w", b.dir, err)
	}
	out := filepath.Join(b.cache, "bin", m.Key[:32])
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Binary{}, fmt.Errorf("create the cache for built plugins: %w", err)
	}
	m.Binary = filepath.Join(out, filepath.Base(b.dir)+exeSuffix())
	dir, err := os.MkdirTemp(out, "build-") // others may build the same at the same time
	if err != nil {
		return Binary{}, fmt.Errorf("create the cache for built plugins: %w", err)
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, filepath.Base(m.Binary))
	if _, err := b.run(ctx, "build", "-ldflags=-s -w", "-o", tmp, "."); err != nil {
		return Binary{}, err
	}
	if m.SHA256, err = Checksum(tmp); err != nil {
		return Binary{}, fmt.Errorf("hash built plugin: %w", err)
	}
	err = errors.Join(os.Chmod(tmp, 0o555), os.Rename(tmp, m.Binary), b.remember(m))
	if err != nil {
		return Binary{}, fmt.Errorf("keep built plugin: %w", err)
	}
	return Binary{Path: m.Binary, SHA256: m.SHA256}, nil
}

func (b *builder) remember(m *manifest) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.manifest), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(b.manifest), "manifest-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // in vain once it is renamed
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), b.manifest)
}

// list asks the go command what the program is made of, but for the module cache and the Go tree,
// which go.sum and the go command stand for.
func (b *builder) list(ctx context.Context) (*manifest, error) {
	out, err := b.run(ctx, "list", "-deps", "-e",
		"-json=Dir,Name,Standard,Module,EmbedFiles,DepOnly", ".")
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	mods := map[string]bool{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			Dir, Name         string
			Standard, DepOnly bool
			EmbedFiles        []string
			Module            *struct {
				GoMod, Version string
				Main           bool
				Replace        *struct{ GoMod, Version string }
			}
		}
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("list the packages of plugin in %s: %w", b.dir, err)
		}
		if !p.DepOnly && p.Name != "" && p.Name != "main" {
			return nil, fmt.Errorf("build plugin in %s: package %s is not a program; "+
				"a plugin is package main", b.dir, p.Name)
		}
		local := p.Module == nil || p.Module.Main || p.Module.Version == "" ||
			p.Module.Replace != nil && p.Module.Replace.Version == ""
		if p.Standard || !local || p.Dir == "" {
			continue
		}
		m.Dirs = append(m.Dirs, p.Dir)
		for _, f := range p.EmbedFiles {
			m.Files = append(m.Files, filepath.Join(p.Dir, f))
		}
		if p.Module != nil && p.Module.GoMod != "" && !mods[p.Module.GoMod] {
			mods[p.Module.GoMod] = true
			m.Files = append(m.Files, p.Module.GoMod, strings.TrimSuffix(p.Module.GoMod, ".mod")+".sum")
		}
	}
	for up := b.dir; ; up = filepath.Dir(up) { // a workspace changes everything
		m.Files = append(m.Files, filepath.Join(up, "go.work"))
		if up == filepath.Dir(up) {
			return m, nil
		}
	}
}

// run runs the go command in the plugin's directory. Its failure is a *BuildError.
func (b *builder) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.goTool, args...)
	cmd.Dir = b.dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("build plugin in %s: %w", b.dir, context.Cause(ctx))
		}
		text := errs.String()
		if text == "" {
			text = err.Error()
		}
		return nil, &BuildError{Dir: b.dir, Errors: compileErrors(text), Output: text}
	}
	return out.Bytes(), nil
}

var compileLine = regexp.MustCompile(`^(?:vet: )?(\S[^:]*\.(?:go|mod|s)):(\d+)(?::(\d+))?: (.+)$`)

// compileErrors reads what the go command prints: file:line:col: message.
func compileErrors(text string) []CompileError {
	var found []CompileError
	for line := range strings.Lines(text) {
		m := compileLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		e := CompileError{File: strings.TrimPrefix(m[1], "./"), Message: m[4]}
		e.Line, _ = strconv.Atoi(m[2])
		e.Col, _ = strconv.Atoi(m[3])
		found = append(found, e)
	}
	return found
}
