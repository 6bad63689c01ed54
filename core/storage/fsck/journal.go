package fsck

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
)

// fileJournal has what group commit acknowledged and the logs' own files may lack.
const fileJournal = "group-commit-journal"

const journalStep = 512 // blocks begin at multiples of it

// journal looks for blocks of the newest generation that are not intact in front of one that is:
// those were acknowledged.
func (c *checker) journal() {
	data, ok := c.file(fileJournal)
	if !ok {
		return
	}
	path := filepath.Join(c.opts.Path, fileJournal)
	if c.clean {
		c.note(path, -1, doNothing, "is left from before the clean shutdown")
		return
	}
	newest := journalGeneration(data)
	pos, gap := journalStep, -1
	for pos < len(data) {
		size, generation := journalBlock(data, pos)
		switch {
		case size == 0 || generation != newest:
			if gap < 0 {
				gap = pos
			}
			pos += journalStep
		case gap >= 0:
			c.damage(path, int64(gap), "restore the file, or remove it to go on without the records "+
				"that are only there", "has no intact block here, but one at %d", pos)
			return
		default:
			pos += (size + journalStep - 1) / journalStep * journalStep
		}
	}
	c.note(path, -1, doNothing, "has records that the logs may lack")
}

// journalGeneration is that of the start block, or of the newest block if that is not intact.
func journalGeneration(data []byte) (newest uint64) {
	if size, generation := journalBlock(data, 0); size > 0 {
		return generation
	}
	for pos := journalStep; pos < len(data); pos += journalStep {
		if size, generation := journalBlock(data, pos); size > 0 {
			newest = max(newest, generation)
		}
	}
	return newest
}

// journalBlock returns size and generation of the block at pos, size 0 if there is no intact one.
func journalBlock(data []byte, pos int) (size int, generation uint64) {
	b := data[pos:]
	if len(b) < 28 || !bytes.Equal(b[:4], []byte("MSGJ")) {
		return 0, 0
	}
	n := int64(binary.BigEndian.Uint32(b[24:]))
	if n < 28 || n > int64(len(b)) || binary.BigEndian.Uint64(b[16:]) != uint64(pos) ||
		binary.BigEndian.Uint32(b[4:]) != crc32.Checksum(b[8:n], crc32.MakeTable(crc32.Castagnoli)) {
		return 0, 0
	}
	return int(n), binary.BigEndian.Uint64(b[8:])
}
