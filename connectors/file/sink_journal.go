package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// The journal makes appends exact. It is a text file beside the sink's file, one entry a line:
//
//	crc32c of the JSON in hex, space, JSON of entry, LF
//
// An entry tells what is about to be appended: the range [From, To) of the file, the CRC of those
// bytes, and the next offset of each partition once they are there. Its life:
//
//  1. append the entry to the journal, fsync it
//  2. append the bytes to the file, fsync it
//  3. acknowledge
//
// After a crash the last entry decides. If the file has exactly To bytes and those of the range
// have the CRC, the write is complete. If the file ends inside the range, or the bytes are
// others, the write is torn: the file is cut back to From, and the entry is dropped; what it
// held was not acknowledged and comes again. Anything else was done by someone else, and is
// refused.
type journal struct {
	path    string
	f       *os.File
	entries []entry // the last two at least; [0] may be the empty start
	size    int     // lines in the file
}

// entry is one append.
type entry struct {
	From    int64        `json:"from"`
	To      int64        `json:"to"`
	CRC     uint32       `json:"crc"` // CRC32C of the range
	Offsets []nextOffset `json:"offsets,omitempty"`
	Columns []string     `json:"columns,omitempty"` // of csv
}

// nextOffset says that all records of a partition below Next are in the file, or were refused.
type nextOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

// journalLines is when the journal is written anew.
const journalLines = 1000

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	// errLocked says that another sink has the file open.
	errLocked = errors.New("sink file is in use by another sink")
)

func journalPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".journal")
}

// openJournal opens and locks the journal of the file at path.
func openJournal(path string) (*journal, error) {
	j := &journal{path: journalPath(path)}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	j.f = f
	if err := j.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// load reads the entries; a torn last line is no entry.
func (j *journal) load() error {
	raw, err := io.ReadAll(j.f)
	if err != nil {
		return err
	}
	j.entries = []entry{{}}
	good := 0
	for len(raw) > good {
		i := bytes.IndexByte(raw[good:], '\n')
		if i < 0 {
			break
		}
		e, err := parseEntry(raw[good : good+i])
		if err != nil {
			if good+i+1 < len(raw) {
				return fmt.Errorf("%s, line %d: %w; it was altered: remove it and the sink's file to start over",
					j.path, j.size+1, err)
			}
			break
		}
		j.entries = append(j.entries, e)
		j.size++
		good += i + 1
	}
	j.entries = slices.Clone(j.entries[max(0, len(j.entries)-2):])
	if err := j.f.Truncate(int64(good)); err != nil {
		return err
	}
	_, err = j.f.Seek(int64(good), io.SeekStart)
	return err
}

func parseEntry(text []byte) (e entry, err error) {
	sum, body, ok := strings.Cut(string(text), " ")
	if !ok || sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)) {
		return e, errors.New("broken entry")
	}
	err = json.Unmarshal([]byte(body), &e)
	if err == nil && (e.From < 0 || e.To < e.From) {
		err = errors.New("broken entry")
	}
	return e, err
}

func formatEntry(e entry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(body, castagnoli), body), nil
}

// last is the newest entry, the empty one when there is none.
func (j *journal) last() entry { return j.entries[len(j.entries)-1] }

// next is the next offset of a partition.
func (j *journal) next(tp sdk.TopicPartition) (int64, bool) {
	for _, o := range j.last().Offsets {
		if o.Topic == tp.Topic && o.Partition == tp.Partition {
			return o.Next, true
		}
	}
	return 0, false
}

// reconcile brings f to the last complete state and returns how many bytes of a torn write it
// cut off.
func (j *journal) reconcile(f *os.File, path string) (dropped int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size, e := info.Size(), j.last()
	altered := func(what string) error {
		return fmt.Errorf("%s was altered by someone else: %s; move it and %s away to start over, or "+
			"give the sink another path", path, what, j.path)
	}
	if size > e.To {
		if j.size == 0 {
			return 0, altered(fmt.Sprintf("it has %d bytes and no journal", size))
		}
		return 0, altered(fmt.Sprintf("it has %d bytes, the journal ends at %d", size, e.To))
	}
	if size < e.From {
		return 0, altered(fmt.Sprintf("it has %d bytes, at least %d were written", size, e.From))
	}
	if size == e.To {
		sum, err := rangeCRC(f, e.From, e.To)
		if err != nil {
			return 0, err
		}
		if sum == e.CRC {
			_, err = f.Seek(e.To, io.SeekStart)
			return 0, err
		}
	}
	return size - e.From, j.rollBack(f, path, altered)
}

// rollBack drops the last write. What was there before must be whole.
func (j *journal) rollBack(f *os.File, path string, altered func(string) error) error {
	e := j.last()
	before := j.entries[max(0, len(j.entries)-2)]
	if j.size == 1 && e.From > 0 { // it was whole once: only a whole one is left alone in a journal
		return altered(fmt.Sprintf("bytes %d to %d are not those that were written", e.From, e.To))
	}
	if j.size > 1 {
		sum, err := rangeCRC(f, before.From, before.To)
		if err != nil {
			return err
		}
		if sum != before.CRC || before.To != e.From {
			return altered(fmt.Sprintf("bytes %d to %d are not those that were written", before.From,
				before.To))
		}
	}
	if err := errors.Join(f.Truncate(e.From), f.Sync()); err != nil {
		return fmt.Errorf("cut %s back to %d bytes: %w", path, e.From, err)
	}
	if _, err := f.Seek(e.From, io.SeekStart); err != nil {
		return err
	}
	j.entries = []entry{before}
	return j.rewrite()
}

func rangeCRC(f io.ReaderAt, from, to int64) (uint32, error) {
	h := crc32.New(castagnoli)
	_, err := io.Copy(h, io.NewSectionReader(f, from, to-from))
	return h.Sum32(), err
}

// write appends chunk to f, by the steps above.
func (j *journal) write(f *os.File, chunk []byte, offsets sdk.Offsets, columns []string) error {
	e := entry{
		From: j.last().To, To: j.last().To + int64(len(chunk)), CRC: crc32.Checksum(chunk, castagnoli),
		Offsets: merge(j.last().Offsets, offsets), Columns: columns,
	}
	if len(chunk) == 0 { // only offsets moved on: the range stays that of the last write
		e.From, e.CRC = j.last().From, j.last().CRC
	}
	j.entries = append(j.entries[max(0, len(j.entries)-1):], e)
	if err := j.append(e); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if len(chunk) == 0 {
		return nil
	}
	if _, err := f.Write(chunk); err != nil {
		return err
	}
	return f.Sync()
}

func (j *journal) append(e entry) error {
	if j.size >= journalLines {
		return j.rewrite()
	}
	text, err := formatEntry(e)
	if err != nil {
		return err
	}
	if _, err := j.f.Write(text); err != nil {
		return err
	}
	j.size++
	if j.size == 1 { // the name must last, too
		return errors.Join(j.f.Sync(), syncDir(j.path))
	}
	return j.f.Sync()
}

// rewrite writes the entries that are still needed into a new journal.
func (j *journal) rewrite() error {
	var text []byte
	n := 0
	for _, e := range j.entries {
		if e.To == 0 && e.Offsets == nil {
			continue
		}
		line, err := formatEntry(e)
		if err != nil {
			return err
		}
		text = append(text, line...)
		n++
	}
	tmp := j.path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err = lockFile(f); err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(tmp, j.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_ = j.f.Close()
	j.f, j.size = f, n
	return syncDir(j.path)
}

func (j *journal) close() error { return j.f.Close() }

// merge returns the offsets with those of next put in, in a stable order.
func merge(old []nextOffset, next sdk.Offsets) []nextOffset {
	out := slices.Clone(old)
	for tp, offset := range next {
		i := slices.IndexFunc(out, func(o nextOffset) bool {
			return o.Topic == tp.Topic && o.Partition == tp.Partition
		})
		if i < 0 {
			out = append(out, nextOffset{tp.Topic, tp.Partition, offset})
		} else {
			out[i].Next = offset
		}
	}
	slices.SortFunc(out, func(a, b nextOffset) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out
}

// syncDir makes the names in the directory of path last.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
