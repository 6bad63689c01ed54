package fsck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// producer is what a log says of one producer at an offset.
type producer struct {
	epoch            int16
	lastSequence     int32
	lastOffset       int64
	offsetDelta      int32
	timestamp        int64
	coordinatorEpoch int32
	txnFirstOffset   int64 // of its open transaction, -1 if none is open
}

// tracked is a producer as far as the log has been read, and which of it the log has told.
type tracked struct {
	producer
	batch  bool // a data batch of its epoch: sequence and offsets
	marker bool // a marker: coordinator epoch, and that no older transaction is open
}

// producers are those of one log.
type producers struct {
	byID map[int64]*tracked
	// complete says that the log begins at offset 0 and was not compacted: all is known.
	complete bool
}

// enter returns the producer of a batch, in the batch's epoch.
func (p *producers) enter(b record.Batch) *tracked {
	t := p.byID[b.ProducerID()]
	if t == nil {
		if p.byID == nil {
			p.byID = make(map[int64]*tracked)
		}
		t = &tracked{producer: producer{
			epoch: b.ProducerEpoch(), lastSequence: -1, lastOffset: -1, coordinatorEpoch: -1,
			txnFirstOffset: -1,
		}}
		t.batch, t.marker = p.complete, p.complete
		p.byID[b.ProducerID()] = t
	}
	if t.epoch != b.ProducerEpoch() {
		t.epoch = b.ProducerEpoch()
		t.lastSequence, t.lastOffset, t.offsetDelta = -1, -1, 0
		t.batch = true
	}
	t.timestamp = b.MaxTimestamp()
	return t
}

// producer takes the batch of a producer, or the marker of its transaction.
func (s *segment) producer(h header, b record.Batch) {
	if b.IsControl() {
		s.markerBatch(h, b)
		return
	}
	t := s.producers.enter(b)
	t.batch = true
	t.lastSequence = -1
	if b.BaseSequence() >= 0 {
		span := int64(b.LastOffsetDelta())
		t.lastSequence = int32((int64(b.BaseSequence()) + span) & math.MaxInt32)
	}
	t.lastOffset, t.offsetDelta = h.lastOffset, b.LastOffsetDelta()
	if b.IsTransactional() && t.txnFirstOffset < 0 {
		t.txnFirstOffset = h.baseOffset
	}
}

func (s *segment) markerBatch(h header, b record.Batch) {
	kind, coordinatorEpoch, found := record.ControlType(-1), int32(-1), false
	err := b.Each(maxRecords, func(r *record.Record) (err error) {
		kind, coordinatorEpoch, err = record.ParseControl(r)
		found = kind == record.ControlAbort || kind == record.ControlCommit
		return err
	})
	if err != nil {
		s.damage(s.path, h.pos, doRestore, "control batch at offset %d: %v", h.baseOffset, err)
		return
	}
	if !found {
		return // emptied by compaction, or of a kind that ends no transaction
	}
	t := s.producers.enter(b)
	first := t.txnFirstOffset
	if kind == record.ControlAbort {
		s.abort(h, b.ProducerID(), first, t.marker)
	}
	t.coordinatorEpoch, t.txnFirstOffset, t.marker = coordinatorEpoch, -1, true
}

// abort notes what the index of aborted transactions must have for a marker.
func (s *segment) abort(h header, id, first int64, known bool) {
	switch {
	case s.cleanedTo >= 0 || first < 0 && !known:
		s.aborts.vague = append(s.aborts.vague, h.lastOffset)
	case first >= 0 && !known && s.bases[0] > 0:
		s.aborts.vague = append(s.aborts.vague, h.lastOffset)
	case first >= 0:
		stable := h.lastOffset + 1
		for other, t := range s.producers.byID {
			if other != id && t.txnFirstOffset >= 0 {
				stable = min(stable, t.txnFirstOffset)
			}
		}
		s.aborts.want = append(s.aborts.want, aborted{id, first, h.lastOffset, stable})
	}
}

const (
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

// readSnapshot reads the producers of a .snapshot file.
func readSnapshot(b []byte) (map[int64]producer, error) {
	if len(b) < snapshotHeaderSize {
		return nil, fmt.Errorf("it has %d bytes, want %d or more", len(b), snapshotHeaderSize)
	}
	if v := binary.BigEndian.Uint16(b); v != 1 {
		return nil, fmt.Errorf("version is %d, want 1", v)
	}
	want, sum := binary.BigEndian.Uint32(b[2:]), crc32.Checksum(b[6:], castagnoli)
	if want != sum {
		return nil, fmt.Errorf("CRC is %08x, its bytes give %08x", want, sum)
	}
	n := int64(int32(binary.BigEndian.Uint32(b[6:])))
	if n*snapshotEntrySize != int64(len(b)-snapshotHeaderSize) {
		return nil, fmt.Errorf("%d producers in %d bytes", n, len(b))
	}
	list := make(map[int64]producer, n)
	for b = b[snapshotHeaderSize:]; len(b) > 0; b = b[snapshotEntrySize:] {
		list[int64(binary.BigEndian.Uint64(b))] = producer{
			epoch:            int16(binary.BigEndian.Uint16(b[8:])),
			lastSequence:     int32(binary.BigEndian.Uint32(b[10:])),
			lastOffset:       int64(binary.BigEndian.Uint64(b[14:])),
			offsetDelta:      int32(binary.BigEndian.Uint32(b[22:])),
			timestamp:        int64(binary.BigEndian.Uint64(b[26:])),
			coordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
			txnFirstOffset:   int64(binary.BigEndian.Uint64(b[38:])),
		}
	}
	return list, nil
}

// snapshot holds a snapshot against the producers before its offset.
func (p *partition) snapshot(at int64) {
	path := filepath.Join(p.dir, fmt.Sprintf("%020d%s", at, suffixSnapshot))
	data, err := vfs.ReadFile(p.opts.FS, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		p.unreadable(path, err)
		return
	}
	list, err := readSnapshot(data)
	if err != nil {
		p.afterCrash(path, -1, doRebuild, "is malformed: %v", err)
		return
	}
	if p.cleanedTo >= 0 || p.lost {
		return // batches that it tells of are gone
	}
	i := int64(0)
	for len(data) >= snapshotHeaderSize+int(i+1)*snapshotEntrySize {
		position := snapshotHeaderSize + i*snapshotEntrySize
		id := int64(binary.BigEndian.Uint64(data[position:]))
		p.compareProducer(path, position, id, list[id])
		i++
	}
}

// compareProducer holds a producer of a snapshot against what the log has told of it so far.
func (p *partition) compareProducer(path string, position, id int64, got producer) {
	t := p.producers.byID[id]
	if t == nil {
		if p.producers.complete {
			p.damage(path, position, doRebuild, "producer %d has no batch in the log", id)
		}
		return
	}
	want := t.producer
	if !t.batch {
		want.lastSequence, want.lastOffset, want.offsetDelta = got.lastSequence, got.lastOffset,
			got.offsetDelta
	}
	if !t.marker {
		want.coordinatorEpoch = got.coordinatorEpoch
		if !p.producers.complete {
			want.txnFirstOffset = got.txnFirstOffset
		}
	}
	if got != want {
		p.damage(path, position, doRebuild, "producer %d is %s, the log has %s", id, got, want)
	}
}

// String shows a producer's fields in the order of the file.
func (p producer) String() string {
	return fmt.Sprintf("epoch %d sequence %d offset %d delta %d time %d coordinator epoch %d "+
		"transaction from %d", p.epoch, p.lastSequence, p.lastOffset, p.offsetDelta, p.timestamp,
		p.coordinatorEpoch, p.txnFirstOffset)
}
