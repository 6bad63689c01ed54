package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// A .snapshot file is the producer table at the offset in its name (exclusive). Big-endian:
//
//	offset size field
//	0      2    version (1)
//	2      4    crc       CRC-32C of byte 6 to the end
//	6      4    n         number of entries
//	10     n*46 entries: 8 producerId, 2 producerEpoch, 4 lastSequence, 8 lastOffset,
//	            4 offsetDelta, 8 timestamp, 4 coordinatorEpoch, 8 currentTxnFirstOffset (-1 none)
const (
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeSnapshot writes the table. Only the last batch of each producer is kept, as in Kafka.
func encodeSnapshot(t producerTable) []byte {
	b := make([]byte, 0, snapshotHeaderSize+len(t)*snapshotEntrySize)
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t)))
	for _, id := range t.sortedIDs() {
		p := t[id]
		last := batchMark{lastSequence: record.NoSequence, lastOffset: -1}
		if p.n > 0 {
			last = p.marks[p.n-1]
		}
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.offsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(p.lastTimestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(p.coordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.txnFirstOffset))
	}
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// decodeSnapshot is the inverse; ErrBadFile if version, CRC or size are wrong.
func decodeSnapshot(b []byte) (producerTable, error) {
	if len(b) < snapshotHeaderSize {
		return nil, fmt.Errorf("%w: snapshot of %d bytes", ErrBadFile, len(b))
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, fmt.Errorf("%w: snapshot version %d, want 1", ErrBadFile, v)
	}
	if sum := crc32.Checksum(b[6:], castagnoli); sum != binary.BigEndian.Uint32(b[2:]) {
		return nil, fmt.Errorf("%w: snapshot CRC %08x, its bytes give %08x", ErrBadFile,
			binary.BigEndian.Uint32(b[2:]), sum)
	}
	n := int64(int32(binary.BigEndian.Uint32(b[6:])))
	if n < 0 || n*snapshotEntrySize != int64(len(b)-snapshotHeaderSize) {
		return nil, fmt.Errorf("%w: snapshot claims %d entries in %d bytes", ErrBadFile, n, len(b))
	}
	t := make(producerTable, n)
	for b = b[snapshotHeaderSize:]; len(b) > 0; b = b[snapshotEntrySize:] {
		p := &producer{
			epoch:            int16(binary.BigEndian.Uint16(b[8:])),
			lastTimestamp:    int64(binary.BigEndian.Uint64(b[26:])),
			coordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
			txnFirstOffset:   int64(binary.BigEndian.Uint64(b[38:])),
		}
		last := batchMark{
			lastSequence: int32(binary.BigEndian.Uint32(b[10:])),
			lastOffset:   int64(binary.BigEndian.Uint64(b[14:])),
			offsetDelta:  int32(binary.BigEndian.Uint32(b[22:])),
			timestamp:    p.lastTimestamp,
		}
		if last.lastOffset >= 0 && last.offsetDelta >= 0 {
			p.add(last)
		}
		t[int64(binary.BigEndian.Uint64(b))] = p
	}
	return t, nil
}

// writeSnapshot stores the table for offset. It is not synced: a broken one fails its CRC and the
// table is then rebuilt from the log.
func writeSnapshot(fsys vfs.FS, dir string, offset int64, t producerTable) error {
	name := segmentFile(dir, offset, suffixSnapshot)
	if err := writeFile(fsys, name, encodeSnapshot(t)); err != nil {
		_ = fsys.Remove(name)
		return fmt.Errorf("write producer snapshot %s: %w", name, err)
	}
	return nil
}

func writeFile(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, vfs.ReadWrite|vfs.Create|vfs.Truncate, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// readSnapshot loads the table of offset. A missing file is fs.ErrNotExist.
func readSnapshot(fsys vfs.FS, dir string, offset int64) (producerTable, error) {
	name := segmentFile(dir, offset, suffixSnapshot)
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot %s: %w", name, err)
	}
	t, err := decodeSnapshot(data)
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot %s: %w", name, err)
	}
	return t, nil
}

// removeIfExists is Remove for files that may be gone already.
func removeIfExists(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
