package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/vfs"
)

// replayJournal writes what the journal has into the logs' files, makes it durable there, and
// removes the journal. After a clean shutdown there is nothing in it that the files lack.
func (d *Dir) replayJournal(clean bool) error {
	data, err := vfs.ReadFile(d.opts.FS, d.journal.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", d.journal.path(), err)
	}
	if !clean {
		pieces, err := parseJournal(data)
		if err != nil {
			return fmt.Errorf("read %s: %w", d.journal.path(), err)
		}
		if err := d.writePieces(pieces); err != nil {
			return fmt.Errorf("write what is in %s: %w", d.journal.path(), err)
		}
	}
	if err := d.opts.FS.Remove(d.journal.path()); err != nil {
		return err
	}
	return syncDir(d.opts.FS, d.opts.Path)
}

// piece is what a .log file has at a position.
type piece struct {
	tp        TopicPartition
	topicID   uuid.UUID
	base, pos int64
	bytes     []byte
}

// parseJournal returns the pieces of the journal's last lap. What does not read back at its end was
// never acknowledged; what does not read back before its end (ErrDamaged) was.
//
// Without an intact start block there is nothing that the logs' files lack, if it tore when it was
// written, or it rotted. To write the last lap's pieces is right either way.
func parseJournal(data []byte) ([]piece, error) {
	generation, ok := startGeneration(data)
	if !ok {
		return nil, nil
	}
	var pieces []piece
	pos := int64(journalBlock)
	for {
		block, found := journalBlockAt(data, pos, generation)
		if !found {
			break
		}
		list, err := parsePieces(block)
		if err != nil {
			return nil, fmt.Errorf("%w: block at %d: %w", ErrDamaged, pos, err)
		}
		pieces = append(pieces, list...)
		pos += (int64(len(block)) + journalBlock - 1) / journalBlock * journalBlock
	}
	for at := pos + journalBlock; at < int64(len(data)); at += journalBlock {
		if _, found := journalBlockAt(data, at, generation); found {
			return nil, fmt.Errorf("%w: %w: there is no intact block at %d, but one at %d; restore the "+
				"file, or remove it to go on without the records that are only there", ErrDamaged,
				ErrBadFile, pos, at)
		}
	}
	return pieces, nil
}

// startGeneration returns the generation of the start block, or of the newest block if that one is
// not intact.
func startGeneration(data []byte) (generation uint64, ok bool) {
	if b, found := journalBlockAt(data, 0, 0); found {
		return binary.BigEndian.Uint64(b[8:]), true
	}
	for at := int64(journalBlock); at < int64(len(data)); at += journalBlock {
		if b, found := journalBlockAt(data, at, 0); found {
			generation, ok = max(generation, binary.BigEndian.Uint64(b[8:])), true
		}
	}
	return generation, ok
}

// journalBlockAt returns the block at pos if it is intact and of the generation; 0 is any.
func journalBlockAt(data []byte, pos int64, generation uint64) ([]byte, bool) {
	if pos+journalHeader > int64(len(data)) {
		return nil, false
	}
	b := data[pos:]
	n := binary.BigEndian.Uint32(b[24:])
	if !bytes.Equal(b[:4], journalMagic[:]) || binary.BigEndian.Uint64(b[16:]) != uint64(pos) ||
		n < journalHeader || int64(n) > int64(len(b)) {
		return nil, false
	}
	b = b[:n]
	if g := binary.BigEndian.Uint64(b[8:]); generation != 0 && g != generation {
		return nil, false
	}
	return b, crc32.Checksum(b[8:], castagnoli) == binary.BigEndian.Uint32(b[4:])
}

// parsePieces reads the pieces of an intact block.
func parsePieces(block []byte) ([]piece, error) {
	var list []piece
	for b := block[journalHeader:]; len(b) > 0; {
		if len(b) < pieceHeader {
			return nil, fmt.Errorf("%w: %d bytes left", ErrBadFile, len(b))
		}
		p := piece{topicID: uuid.UUID(b[:16]), base: int64(binary.BigEndian.Uint64(b[16:])),
			pos: int64(binary.BigEndian.Uint64(b[24:]))}
		p.tp.Partition = int32(binary.BigEndian.Uint32(b[32:]))
		name, n := int(binary.BigEndian.Uint16(b[36:])), int(binary.BigEndian.Uint32(b[38:]))
		if b = b[pieceHeader:]; len(b) < name || len(b)-name < n {
			return nil, fmt.Errorf("%w: a piece of %d and %d bytes, %d are left", ErrBadFile, name, n,
				len(b))
		}
		p.tp.Topic, p.bytes = string(b[:name]), b[name:name+n]
		b = b[name+n:]
		if err := p.tp.validate(); err != nil || p.base < 0 || p.pos < 0 {
			return nil, fmt.Errorf("%w: a piece of %q, segment %d, position %d", ErrBadFile, p.tp, p.base,
				p.pos)
		}
		list = append(list, p)
	}
	return list, nil
}

// writePieces writes pieces into their files and syncs those. Segments that are not there any more
// were deleted.
func (d *Dir) writePieces(pieces []piece) (err error) {
	files := map[string]vfs.File{}
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for i := range pieces {
		p := &pieces[i]
		dir := filepath.Join(d.opts.Path, p.tp.String())
		name := segmentFile(dir, p.base, suffixLog)
		if files[name] == nil {
			f, err := d.openPiece(dir, name, p.topicID)
			if err != nil {
				return err
			}
			if f == nil {
				continue
			}
			files[name] = f
		}
		if err := restorePiece(files[name], p); err != nil {
			return err
		}
	}
	for name, f := range files {
		if err := f.Datasync(); err != nil {
			return syncFileError(name, err)
		}
	}
	return nil
}

// restorePiece writes a piece unless it is there.
func restorePiece(f vfs.File, p *piece) error {
	have := make([]byte, len(p.bytes))
	n, err := f.ReadAt(have, p.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s at %d: %w", f.Name(), p.pos, err)
	}
	if n == len(have) && bytes.Equal(have, p.bytes) {
		return nil
	}
	n, err = f.WriteAt(p.bytes, p.pos)
	if err := errors.Join(err, shortWrite(n, len(p.bytes))); err != nil {
		return fmt.Errorf("write %s at %d: %w", f.Name(), p.pos, err)
	}
	return nil
}

// openPiece opens the file of a piece; nil if it is of a topic, or a segment, that is no more.
func (d *Dir) openPiece(dir, name string, topicID uuid.UUID) (vfs.File, error) {
	metadata, err := vfs.ReadFile(d.opts.FS, filepath.Join(dir, filePartitionMetadata))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := parsePartitionMetadata(metadata)
	if err == nil && id != topicID { // what is broken, opening the log tells about
		return nil, nil
	}
	f, err := d.opts.FS.OpenFile(name, vfs.ReadWrite, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}
