package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/vfs"
)

// An offset checkpoint maps partitions to offsets, one file per data directory:
//
//	0                                version
//	<n>                              number of lines that follow
//	<topic> <partition> <offset>     n times

// formatOffsetCheckpoint writes the file's content, sorted by partition.
func formatOffsetCheckpoint(offsets map[TopicPartition]int64) []byte {
	tps := make([]TopicPartition, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTopicPartition)
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(tps))
	for _, tp := range tps {
		fmt.Fprintf(&b, "%s %d %d\n", tp.Topic, tp.Partition, offsets[tp])
	}
	return b.Bytes()
}

func compareTopicPartition(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// parseOffsetCheckpoint reads the file's content. ErrBadFile names the line.
func parseOffsetCheckpoint(data []byte) (map[TopicPartition]int64, error) {
	if len(data) == 0 {
		return map[TopicPartition]int64{}, nil // as Kafka leaves a file it never wrote to
	}
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	offsets := make(map[TopicPartition]int64, len(lines))
	for i, line := range lines {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%w: line %d has %d fields, want 3", ErrBadFile, i+3, len(f))
		}
		p, errP := strconv.ParseInt(f[1], 10, 32)
		o, errO := strconv.ParseInt(f[2], 10, 64)
		tp := TopicPartition{Topic: f[0], Partition: int32(p)}
		if err := errors.Join(errP, errO, tp.validate()); err != nil || o < 0 {
			return nil, fmt.Errorf("%w: line %d %q", ErrBadFile, i+3, line)
		}
		offsets[tp] = o
	}
	return offsets, nil
}

// checkpointLines checks version and count and returns the lines after them.
func checkpointLines(data []byte) ([]string, error) {
	lines := strings.Split(string(data), "\n")
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("%w: %d lines, want version and count", ErrBadFile, len(lines))
	}
	if strings.TrimSpace(lines[0]) != "0" {
		return nil, fmt.Errorf("%w: version %q, want 0", ErrBadFile, lines[0])
	}
	n, err := strconv.Atoi(strings.TrimSpace(lines[1]))
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%w: count %q, but %d lines follow", ErrBadFile, lines[1],
			len(lines)-2)
	}
	return lines[2:], nil
}

// readOffsetCheckpoint reads a file; a missing one is empty.
func readOffsetCheckpoint(fsys vfs.FS, name string) (map[TopicPartition]int64, error) {
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return map[TopicPartition]int64{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	offsets, err := parseOffsetCheckpoint(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return offsets, nil
}
