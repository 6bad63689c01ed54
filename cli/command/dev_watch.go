package command

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must be quiet before it is read: editors write in several steps.
const settle = 150 * time.Millisecond

// lookEvery is how often something else than files is looked at that may have changed.
const lookEvery = time.Second

// watchTree calls changed, with their names, after files below dir changed that a pipeline is made
// of, and look every lookEvery. It returns when ctx ends.
func watchTree(ctx context.Context, dir string, changed func([]string), look func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer watcher.Close()
	if err := addFolders(watcher, dir); err != nil {
		return err
	}
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	var names []string
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-watcher.Events:
			if !ok {
				return nil
			}
			if e.Has(fsnotify.Create) {
				_ = addFolders(watcher, e.Name) // a file, or a folder that is already gone again
			}
			if partOfPipeline(e.Name) && !e.Has(fsnotify.Chmod) {
				names = append(names, e.Name)
				quiet.Reset(settle)
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return nil
			}
			return fmt.Errorf("watch %s: %w", dir, err)
		case <-tick.C:
			look()
		case <-quiet.C:
			changed(unique(names))
			names = nil
		}
	}
}

// partOfPipeline leaves out data and results, which change all the time.
func partOfPipeline(name string) bool {
	base := filepath.Base(name)
	switch filepath.Ext(base) {
	case ".yaml", ".yml", ".go", ".mod":
		return !strings.HasPrefix(base, ".")
	}
	return false
}

func addFolders(w *fsnotify.Watcher, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away while we looked
		}
		if !d.IsDir() {
			return nil
		}
		name := d.Name()
		if path != root && (strings.HasPrefix(name, ".") || name == "out" || name == "data" ||
			name == defaultDataDir) {
			return filepath.SkipDir
		}
		return w.Add(path)
	})
}
