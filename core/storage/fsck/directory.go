package fsck

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/core/vfs"
)

// Files of a data directory.
const (
	fileLock           = ".lock"
	fileMetaProperties = "meta.properties"
	fileCleanShutdown  = ".kafka_cleanshutdown"
	fileRecoveryPoints = "recovery-point-offset-checkpoint"
	fileStartOffsets   = "log-start-offset-checkpoint"
	fileHighWatermarks = "replication-offset-checkpoint"
	fileCleaned        = "cleaner-offset-checkpoint"
	fileAborts         = "aborted-transactions-checkpoint"
)

var checkpointFiles = []string{
	fileRecoveryPoints, fileStartOffsets, fileHighWatermarks, fileCleaned,
}

// otherFiles are those that belong into a data directory and have nothing to be checked: the lock
// and what a Kafka broker keeps there.
var otherFiles = []string{fileLock, "bootstrap.checkpoint", "lost+found"}

func (c *checker) directory() error {
	entries, err := c.opts.FS.ReadDir(c.opts.Path)
	if err != nil {
		return err
	}
	c.identity()
	c.shutdown()
	c.checkpoints()
	c.journal()
	found := make(map[string]bool)
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(c.opts.Path, e.Name())
		switch {
		case e.IsDir() && isPartition(name):
			found[name] = true
			if err := c.partition(name, path); err != nil {
				return err
			}
		case e.IsDir():
			c.otherDirectory(name, path)
		default:
			c.otherFile(name, path)
		}
	}
	for _, file := range checkpointFiles {
		for _, name := range slices.Sorted(maps.Keys(c.points[file])) {
			if !found[name] {
				c.note(filepath.Join(c.opts.Path, file), -1, doNothing,
					"has a line for %s, which is not there", name)
			}
		}
	}
	return nil
}

func (c *checker) otherDirectory(name, path string) {
	switch {
	case slices.Contains(c.opts.Known, name) || slices.Contains(otherFiles, name):
	case strings.HasSuffix(name, "-delete"):
		c.note(path, -1, doNothing, "is the directory of a deleted topic, to be removed")
	case strings.HasSuffix(name, "-stray"):
		c.note(path, -1, "remove it when its records are not needed any more",
			"was set aside because the cluster does not know the partition")
	case strings.HasSuffix(name, "-future"):
		c.note(path, -1, doNothing, "is a partition that moves between directories")
	default:
		c.damage(path, -1, doRemove, "is no partition: the directory does not belong here")
	}
}

func (c *checker) otherFile(name, path string) {
	switch {
	case slices.Contains(checkpointFiles, name) || slices.Contains(otherFiles, name) ||
		slices.Contains(c.opts.Known, name) ||
		name == fileMetaProperties || name == fileCleanShutdown || name == fileJournal:
	case name == fileAborts:
		c.abortsList(path)
	case strings.HasSuffix(name, ".tmp"):
		c.note(path, -1, doNothing, "is a write that a crash has cut short")
	default:
		c.damage(path, -1, doRemove, "is a file that does not belong here")
	}
}

// file reads a small file; false if it is missing or unreadable, which is reported.
func (c *checker) file(name string) ([]byte, bool) {
	path := filepath.Join(c.opts.Path, name)
	data, err := vfs.ReadFile(c.opts.FS, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		c.unreadable(path, err)
		return nil, false
	}
	return data, true
}

// malformed reports a text file by the line that is wrong.
func (c *checker) malformed(path, do string, err error) {
	position := int64(-1)
	if line, ok := errors.AsType[*lineError](err); ok {
		position = line.line
	}
	c.damage(path, position, do, "is malformed: %v", err)
}

func (c *checker) identity() {
	path := filepath.Join(c.opts.Path, fileMetaProperties)
	data, ok := c.file(fileMetaProperties)
	do := "write it anew with the cluster.id and node.id of the other directories of this broker"
	if !ok {
		if c.reports[path] == 0 {
			c.damage(path, -1, do, "is missing: the directory belongs to nobody")
		}
		return
	}
	if err := checkProperties(data); err != nil {
		c.malformed(path, do, err)
	}
}

func (c *checker) shutdown() {
	path := filepath.Join(c.opts.Path, fileCleanShutdown)
	data, ok := c.file(fileCleanShutdown)
	if !ok {
		if c.reports[path] == 0 {
			c.note(path, -1, doNothing, "is missing: the last broker did not end in order")
		}
		return
	}
	if err := checkCleanShutdown(data); err != nil {
		c.malformed(path, "remove it: the next start then checks the ends of all logs", err)
		return
	}
	c.clean = true
}

func (c *checker) checkpoints() {
	for _, name := range checkpointFiles {
		data, ok := c.file(name)
		if !ok {
			continue
		}
		offsets, err := parseOffsets(data)
		if err != nil {
			c.malformed(filepath.Join(c.opts.Path, name),
				"remove it: the next start takes the logs themselves, which takes longer", err)
			continue
		}
		c.points[name] = offsets
	}
}

// abortsList checks the list of segments with aborted transactions by its checksum. What it says is
// not needed here, where the log itself is read.
func (c *checker) abortsList(path string) {
	data, ok := c.file(fileAborts)
	head, lines, _ := bytes.Cut(data, []byte("\n"))
	sum, lines, found := bytes.Cut(lines, []byte("\n"))
	want := fmt.Sprintf("%08x", crc32.Checksum(lines, crc32.MakeTable(crc32.Castagnoli)))
	if ok && (!found || string(head) != "0" || string(sum) != want) {
		c.damage(path, -1, "remove it: the next start writes it anew",
			"has version %.20q and CRC %.20q, but its lines give %s", head, sum, want)
	}
}

// point is what a checkpoint says of a partition, -1 if it says nothing.
func (c *checker) point(file, partition string) int64 {
	if offset, ok := c.points[file][partition]; ok {
		return offset
	}
	return -1
}
