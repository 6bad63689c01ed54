package storage

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/vfs"
)

// That a .txnindex was lost, or cut, cannot be seen in Kafka's files: most segments have none. So
// a list of those that there are is kept beside the checkpoints, one file per data directory:
//
//	0                                          version
//	<crc>                                      CRC-32C of the lines that follow, in hex
//	<topic> <partition> <base offset> <count>  of each segment with aborted transactions
//
// A segment that has fewer than the list says is read again at the start. That is all that depends
// on it: a list that is too long costs time, one that is missing tells nothing.

// abortCounts are the counts of a log's segments by their base offsets.
type abortCounts map[int64]int64

// formatAbortsList writes the file's content.
func formatAbortsList(logs []*Log) []byte {
	var b bytes.Buffer
	for _, l := range logs {
		for _, s := range *l.segments.Load() {
			if n := s.mu.aborts.count.Load(); n > 0 {
				fmt.Fprintf(&b, "%s %d %d %d\n", l.tp.Topic, l.tp.Partition, s.base, n)
			}
		}
	}
	return fmt.Appendf(nil, "0\n%08x\n%s", crc32.Checksum(b.Bytes(), castagnoli), b.Bytes())
}

// parseAbortsList reads it.
func parseAbortsList(data []byte) (map[TopicPartition]abortCounts, error) {
	head, lines, ok := bytes.Cut(data, []byte("\n"))
	sum, lines, also := bytes.Cut(lines, []byte("\n"))
	want := fmt.Sprintf("%08x", crc32.Checksum(lines, castagnoli))
	if !ok || !also || string(head) != "0" || string(sum) != want {
		return nil, fmt.Errorf("%w: version %.20q, CRC %.20q, its lines give %s", ErrBadFile, head, sum,
			want)
	}
	list := map[TopicPartition]abortCounts{}
	for line := range strings.Lines(string(lines)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("%w: line %q", ErrBadFile, line)
		}
		p, errP := strconv.ParseInt(f[1], 10, 32)
		base, errB := strconv.ParseInt(f[2], 10, 64)
		n, errN := strconv.ParseInt(f[3], 10, 64)
		if err := errors.Join(errP, errB, errN); err != nil {
			return nil, fmt.Errorf("%w: line %q: %w", ErrBadFile, line, err)
		}
		tp := TopicPartition{Topic: f[0], Partition: int32(p)}
		if list[tp] == nil {
			list[tp] = abortCounts{}
		}
		list[tp][base] = n
	}
	return list, nil
}

// readAbortsList reads the directory's list. A broken one tells nothing.
func (d *Dir) readAbortsList() (map[TopicPartition]abortCounts, error) {
	name := filepath.Join(d.opts.Path, fileAbortsList)
	data, err := vfs.ReadFile(d.opts.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	list, err := parseAbortsList(data)
	if err != nil {
		d.logger.Warn("broken list of aborted transactions ignored", "file", name, "error", err)
		return nil, nil
	}
	d.abortsList = data
	return list, nil
}

// saveAbortsList writes the list if it has changed. The caller holds checkpointToken.
func (d *Dir) saveAbortsList() error {
	data := formatAbortsList(d.Logs())
	none := bytes.Count(data, []byte("\n")) == 2
	if slices.Equal(data, d.abortsList) || none && d.abortsList == nil {
		return nil
	}
	path := filepath.Join(d.opts.Path, fileAbortsList)
	if err := vfs.WriteFileAtomic(d.opts.FS, path, data, 0o644); err != nil {
		return d.diskError(fmt.Errorf("write %s: %w", path, err))
	}
	d.abortsList = data
	return nil
}

// checkAbortCounts marks indexes that have fewer aborted transactions than the list says.
func (l *Log) checkAbortCounts(counts abortCounts) {
	for _, s := range *l.segments.Load() {
		x := &s.mu.aborts
		if want, got := counts[s.base], x.count.Load(); !x.stale && got < want {
			l.logger.Warn("aborted transactions are read from the log, their index was lost or cut",
				"partition", l.tp, "file", x.name, "entries", got, "want", want)
			x.stale = true
		}
	}
}
