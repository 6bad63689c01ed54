package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

// ErrNoData says that a directory is none that a broker has made.
var ErrNoData = errors.New("no data directory of a broker")

// The findings of Check, and what it has read.
type (
	// CheckFinding is one thing that is wrong.
	CheckFinding = fsck.Finding
	// CheckSummary counts what was read, and the findings.
	CheckSummary = fsck.Summary
)

// CheckOptions say what to check.
type CheckOptions struct {
	// FS is the file system; default vfs.OS().
	FS vfs.FS
	// DataDir is a broker's data directory, or one of Apache Kafka's log.dirs.
	DataDir string
	// Report is called with each finding.
	Report func(CheckFinding)
}

// Check looks at the files of a broker that does not run and reports what is wrong with them. It
// only reads. The error says why it could not look: ErrNoData, or vfs.ErrLocked if a process uses
// the directory.
func Check(ctx context.Context, opts CheckOptions) (CheckSummary, error) {
	if opts.FS == nil {
		opts.FS = vfs.OS()
	}
	c := &check{CheckOptions: opts}
	data := filepath.Join(opts.DataDir, "data")
	if !c.exists(filepath.Join(data, "meta.properties")) && !c.exists(data) {
		if !c.exists(filepath.Join(opts.DataDir, "meta.properties")) {
			return CheckSummary{}, fmt.Errorf("check %s: %w", opts.DataDir, ErrNoData)
		}
		err := c.lone(ctx, opts.DataDir)
		return c.summary, err
	}
	err := c.broker(ctx, data, filepath.Join(opts.DataDir, "raft"))
	return c.summary, err
}

// check is one run of Check.
type check struct {
	CheckOptions
	summary CheckSummary
}

func (c *check) exists(name string) bool {
	_, err := c.FS.Stat(name)
	return err == nil
}

func (c *check) report(f CheckFinding) {
	if f.Note {
		c.summary.Notes++
	} else {
		c.summary.Damages++
	}
	c.Report(f)
}

// lone checks a data directory of Kafka, which has no raft directory beside it.
func (c *check) lone(ctx context.Context, dir string) error {
	return c.locked(func() error { return c.dir(ctx, dir, nil, nil) }, dir)
}

// broker checks both directories of a broker.
func (c *check) broker(ctx context.Context, data, quorum string) error {
	return c.locked(func() error {
		if err := c.dir(ctx, data, nil, nil); err != nil {
			return err
		}
		var log raft.CheckedLog
		partition := raft.LogPartition.String()
		err := c.dir(ctx, quorum, []string{"quorum"}, func(name string, b record.Batch) error {
			if name != partition {
				return nil
			}
			return log.Add(b)
		})
		if err != nil {
			return err
		}
		c.sameBroker(data, quorum)
		return c.quorum(filepath.Join(quorum, "quorum"), log)
	}, data, quorum)
}

// locked runs fn while no broker can use the directories.
func (c *check) locked(fn func() error, dirs ...string) (err error) {
	for _, dir := range dirs {
		var lock io.Closer
		if lock, err = vfs.HoldLock(c.FS, filepath.Join(dir, ".lock")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	return fn()
}

func (c *check) dir(ctx context.Context, path string, known []string,
	batch func(string, record.Batch) error,
) error {
	s, err := fsck.Check(ctx, fsck.Options{
		FS: c.FS, Path: path, Report: c.Report, Known: known, Batch: batch,
	})
	c.summary.Add(s)
	if errors.Is(err, fs.ErrNotExist) {
		c.report(CheckFinding{
			File: path, Position: -1, What: "the directory is missing",
			Do: "restore it from a backup: without it the other one is of no use",
		})
		return nil
	}
	return err
}

// sameBroker compares whose the two directories are.
func (c *check) sameBroker(data, quorum string) {
	identity := func(dir string) string {
		text, err := vfs.ReadFile(c.FS, filepath.Join(dir, "meta.properties"))
		if err != nil {
			return "" // reported already
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "cluster.id=") || strings.HasPrefix(line, "node.id=") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		slices.Sort(lines) // Kafka writes them in another order
		return strings.Join(lines, ", ")
	}
	a, b := identity(data), identity(quorum)
	if a != b && a != "" && b != "" {
		c.report(CheckFinding{
			File: filepath.Join(quorum, "meta.properties"), Position: -1,
			What: fmt.Sprintf("it has %s, but that of %s has %s", b, data, a),
			Do:   "put directories of the same broker together",
		})
	}
}

// quorum checks votes and snapshots.
func (c *check) quorum(dir string, log raft.CheckedLog) error {
	err := raft.CheckState(c.FS, dir, log, func(file string, note bool, err error) {
		do := "restore the raft directory from a backup"
		if note {
			do = "nothing: the next start puts it right"
		}
		c.report(CheckFinding{File: file, Position: -1, What: err.Error(), Do: do, Note: note})
	})
	if errors.Is(err, fs.ErrNotExist) && log.Last > 0 {
		c.report(CheckFinding{
			File: dir, Position: -1, What: "the directory is missing, the log beside it is not empty",
			Do: "restore the raft directory from a backup",
		})
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
