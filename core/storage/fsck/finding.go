package fsck

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// Finding is one thing that is wrong.
type Finding struct {
	// File is the path of the file or directory.
	File string `json:"file"`
	// Position is the byte in the file, or the line of a text file that is meant; -1 for the whole
	// file.
	Position int64 `json:"position"`
	// What says what is wrong there.
	What string `json:"what"`
	// Do says what to do about it.
	Do string `json:"do"`
	// Note says that it is no damage: the next start puts it right, or nothing depends on it.
	Note bool `json:"note"`
}

// Summary counts what was read.
type Summary struct {
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"`
	Bytes      int64 `json:"bytes"`
	// Damages and Notes count the findings, also those beyond the limit for one file.
	Damages int `json:"damages"`
	Notes   int `json:"notes"`
}

// Add adds what was read elsewhere.
func (s *Summary) Add(o Summary) {
	s.Partitions += o.Partitions
	s.Segments += o.Segments
	s.Batches += o.Batches
	s.Records += o.Records
	s.Bytes += o.Bytes
	s.Damages += o.Damages
	s.Notes += o.Notes
}

// Options say what to check.
type Options struct {
	// FS has the directory.
	FS vfs.FS
	// Path is that of the data directory.
	Path string
	// Report is called with each finding.
	Report func(Finding)
	// Batch, if it is not nil, is called with each intact batch of a partition ("topic-0"), for
	// whoever knows what its records must be. Its error is damage.
	Batch func(partition string, b record.Batch) error
	// Known are names beside Kafka's that belong into the directory.
	Known []string
}

// perFile is how many findings of one file are reported: a broken file breaks everywhere.
const perFile = 20

// What to do, in words that are used more than once.
const (
	doRebuild = "with the broker stopped, remove the file: the next start makes it anew from the log"
	// One that is missing is as good as one that nothing belongs into: only a broken one is noticed.
	doRebuildAborts = "with the broker stopped, put one byte in the place of its content: the next " +
		"start makes it anew from the log (without the file, aborted records would be shown)"
	doRestore = "restore the partition's directory from a replica or a backup"
	doNothing = "nothing: the next start puts it right"
	doStart   = "start the broker once: it takes the log itself and writes the file anew"
	doRemove  = "remove it if you do not know it"
)

// checker is one run.
type checker struct {
	opts    Options
	ctx     context.Context // of the run
	summary Summary
	reports map[string]int // by file
	// clean says that the directory was closed in order: what then differs did not come from a
	// crash.
	clean bool
	// points are the offset checkpoints, by file name; nil if the file is missing or broken.
	points map[string]map[string]int64
	// topics has the topic id that partition.metadata gave, by topic.
	topics map[string]string
}

func (c *checker) report(f Finding) {
	if f.Note {
		c.summary.Notes++
	} else {
		c.summary.Damages++
	}
	c.reports[f.File]++
	switch n := c.reports[f.File]; {
	case n < perFile:
		c.opts.Report(f)
	case n == perFile:
		f.What += "; further findings in this file are counted only"
		c.opts.Report(f)
	}
}

func (c *checker) damage(file string, position int64, do, format string, args ...any) {
	c.report(Finding{File: file, Position: position, What: fmt.Sprintf(format, args...), Do: do})
}

func (c *checker) note(file string, position int64, do, format string, args ...any) {
	c.report(Finding{
		File: file, Position: position, What: fmt.Sprintf(format, args...), Do: do, Note: true,
	})
}

// unreadable reports a file that the disk does not give.
func (c *checker) unreadable(file string, err error) {
	c.damage(file, -1, "look at the disk and the file's permissions", "cannot be read: %v", err)
}

// Check looks at a whole data directory. The error says why it could not; what is wrong with the
// directory is reported, not returned. The caller keeps other processes out of it.
func Check(ctx context.Context, opts Options) (Summary, error) {
	if opts.FS == nil || opts.Path == "" || opts.Report == nil {
		return Summary{}, errors.New("check a data directory: FS, Path and Report are needed")
	}
	c := &checker{
		opts: opts, ctx: ctx, reports: make(map[string]int),
		points: make(map[string]map[string]int64), topics: make(map[string]string),
	}
	err := c.directory()
	if err != nil {
		err = fmt.Errorf("check data directory %s: %w", opts.Path, err)
	}
	return c.summary, err
}
