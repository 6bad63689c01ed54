package vfstest

import (
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/millstream-io/millstream/core/vfs"
)

var keepLogs = flag.String("keep-logs", "",
	"copy the data directories that tests leave into this directory, an absolute path")

// maxKept bounds the directories of one test: some open hundreds that differ little.
const maxKept = 40

// place is a directory of a file system.
type place struct {
	test string
	fsys vfs.FS
	dir  string
}

var kept = struct {
	sync.Mutex
	places  map[place]bool
	count   map[string]int    // directories of each test
	reasons map[string]string // tests whose files are not sound, and why
}{places: map[place]bool{}, count: map[string]int{}, reasons: map[string]string{}}

// Keep copies a directory when the test has passed. Once is enough for a directory that the test
// opens again. Call it ahead of what closes the files, since cleanups run last to first.
func Keep(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	if *keepLogs == "" {
		return
	}
	kept.Lock()
	defer kept.Unlock()
	where := place{t.Name(), fsys, dir}
	if kept.places[where] || kept.count[t.Name()] == maxKept {
		return
	}
	kept.places[where] = true
	kept.count[t.Name()]++
	to := filepath.Join(*keepLogs, packageName(), flat(t.Name()), fmt.Sprint(kept.count[t.Name()]))
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if reason := leftOut(t.Name()); reason != "" {
			write(t, filepath.Join(filepath.Dir(to), "LEFT_OUT"), []byte(reason+"\n"))
			return
		}
		// Faults that the test injected must not hit the copy.
		bottom := fsys
		for {
			wrapped, ok := bottom.(interface{ Unwrap() vfs.FS })
			if !ok {
				break
			}
			bottom = wrapped.Unwrap()
		}
		copyTree(t, bottom, dir, to)
	})
}

// LeaveOut says why the files that a test and its subtests leave are not sound.
func LeaveOut(t testing.TB, reason string) {
	kept.Lock()
	defer kept.Unlock()
	kept.reasons[t.Name()] = reason
}

// leftOut returns the reason of the test or of the nearest one above it.
func leftOut(test string) string {
	kept.Lock()
	defer kept.Unlock()
	for {
		if reason := kept.reasons[test]; reason != "" {
			return reason
		}
		slash := strings.LastIndexByte(test, '/')
		if slash < 0 {
			return ""
		}
		test = test[:slash]
	}
}

// packageName is the path of the package under test below the module's, with dots.
func packageName() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "tests"
	}
	name := strings.TrimSuffix(info.Path, ".test")
	return strings.ReplaceAll(strings.TrimPrefix(name, info.Main.Path+"/"), "/", ".")
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// flat makes one folder's name of a test's: Kafka's tool takes no comma in it.
func flat(test string) string {
	name := unusual.ReplaceAllString(test, "_")
	return name[:min(len(name), 120)]
}

func copyTree(t testing.TB, from vfs.FS, dir, to string) {
	t.Helper()
	entries, err := from.ReadDir(dir)
	if err != nil {
		t.Errorf("keep logs: %v", err)
		return
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			copyTree(t, from, name, filepath.Join(to, e.Name()))
		case e.Name() == ".lock": // of a process that is gone
		default:
			data, err := vfs.ReadFile(from, name)
			if err != nil {
				t.Errorf("keep logs: %v", err)
				return
			}
			write(t, filepath.Join(to, e.Name()), data)
		}
	}
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	disk := vfs.OS()
	err := disk.MkdirAll(filepath.Dir(name), 0o755)
	var f vfs.File
	if err == nil {
		f, err = disk.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Truncate, fs.FileMode(0o644))
	}
	if err == nil {
		if _, err = f.Write(data); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		t.Errorf("keep logs: %v", err)
	}
}
