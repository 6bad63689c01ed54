package task

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/internal/fields"
)

// The bytes of an export, see doc.go.
const (
	exportMagic   = "MSSTATE"
	exportVersion = 1

	frameHeader  = 'H'
	frameLane    = 'L'
	frameRows    = 'R'
	frameEnd     = 'E'
	frameFixed   = 9         // length, checksum, kind
	frameBytes   = 1 << 20   // about the most that is gathered in one frame
	frameLargest = 512 << 20 // what a reader believes: one record may be large
)

var exportTable = crc32.MakeTable(crc32.Castagnoli)

// exportHeader is the first frame of an export: what it is of, and the commit of every task.
type exportHeader struct {
	// App is the name that internal topics and writers begin with.
	App string `json:"app"`
	// About is the caller's own word on what was exported.
	About  json.RawMessage `json:"about,omitempty"`
	MadeAt time.Time       `json:"made_at"`
	Subs   []exportedSub   `json:"subs"`
	Tasks  []exportedTask  `json:"tasks"`
}

// exportedSub is a sub-topology, as Sub.Shape describes it.
type exportedSub struct {
	Name       string   `json:"name"`
	Partitions int32    `json:"partitions"`
	Shape      []string `json:"shape"`
}

// exportedTask is a task at one commit.
type exportedTask struct {
	Sub       string `json:"sub"`
	Partition int32  `json:"partition"`
	// Next is the changelog offset behind the commit record, Commit that record.
	Next   int64  `json:"next"`
	Commit []byte `json:"commit"`
}

// exportEnd is the last frame, without which an export is not whole.
type exportEnd struct {
	Rows    int64 `json:"rows"`
	Records int64 `json:"records"`
}

// frameWriter writes frames.
type frameWriter struct {
	w   io.Writer
	err error
}

func (f *frameWriter) write(kind byte, body []byte) error {
	if f.err != nil {
		return f.err
	}
	var head [frameFixed]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(body)))
	head[8] = kind
	sum := crc32.Update(crc32.Checksum(head[8:], exportTable), exportTable, body)
	binary.BigEndian.PutUint32(head[4:], sum)
	if _, f.err = f.w.Write(head[:]); f.err == nil {
		_, f.err = f.w.Write(body)
	}
	return f.err
}

func (f *frameWriter) writeJSON(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame %c: %w", kind, err)
	}
	return f.write(kind, body)
}

// frameReader reads frames.
type frameReader struct {
	r *bufio.Reader
	// at is how far the reader is, for errors.
	at int64
}

// openFrames reads what precedes the frames.
func openFrames(r io.Reader) (*frameReader, error) {
	f := &frameReader{r: bufio.NewReaderSize(r, 256<<10)}
	head := make([]byte, len(exportMagic)+1)
	if _, err := io.ReadFull(f.r, head); err != nil || string(head[:len(exportMagic)]) != exportMagic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrExport, exportMagic)
	}
	if v := head[len(exportMagic)]; v != exportVersion {
		return nil, fmt.Errorf("%w: format %d, this build reads %d; use the version that wrote it",
			ErrExport, v, exportVersion)
	}
	f.at = int64(len(head))
	return f, nil
}

// next reads a frame; io.EOF tells that there is none.
func (f *frameReader) next() (kind byte, body []byte, err error) {
	var head [frameFixed]byte
	switch _, err := io.ReadFull(f.r, head[:]); {
	case errors.Is(err, io.EOF):
		return 0, nil, io.EOF
	case err != nil:
		return 0, nil, fmt.Errorf("%w: it ends within the frame at %d", ErrExport, f.at)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > frameLargest {
		return 0, nil, fmt.Errorf("%w: the frame at %d says that it has %d bytes", ErrExport, f.at, n)
	}
	body, err = io.ReadAll(io.LimitReader(f.r, n))
	if err == nil && int64(len(body)) < n {
		err = fmt.Errorf("%w: it ends within the frame at %d", ErrExport, f.at)
	}
	if err != nil {
		return 0, nil, err
	}
	sum := crc32.Update(crc32.Checksum(head[8:], exportTable), exportTable, body)
	if sum != binary.BigEndian.Uint32(head[4:]) {
		return 0, nil, fmt.Errorf("%w: the frame at %d has a wrong checksum", ErrExport, f.at)
	}
	f.at += frameFixed + n
	return head[8], body, nil
}

// rowFrame gathers rows of one task.
type rowFrame struct {
	task int
	body []byte
}

func (f *rowFrame) add(key, value []byte) (full bool) {
	if len(f.body) == 0 {
		f.body = binary.AppendUvarint(f.body, uint64(f.task))
	}
	f.body = append(binary.AppendUvarint(f.body, uint64(len(key))), key...)
	f.body = append(binary.AppendUvarint(f.body, uint64(len(value))), value...)
	return len(f.body) >= frameBytes
}

// laneFrame gathers records of a repartition topic that their reader, a task, has not processed.
type laneFrame struct {
	task   int
	source string
	body   []byte
}

func (f *laneFrame) add(r *record.Record) (full bool) {
	if len(f.body) == 0 {
		f.body = appendText(binary.AppendUvarint(f.body, uint64(f.task)), f.source)
	}
	b := binary.AppendVarint(f.body, r.Timestamp)
	b = appendNullable(appendNullable(b, r.Key), r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendNullable(appendText(b, h.Key), h.Value)
	}
	f.body = b
	return len(f.body) >= frameBytes
}

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// readRows calls fn with the rows of a frame, which alias it.
func readRows(body []byte, tasks int, fn func(task int, key, value []byte) error) error {
	r := fields.Reader{Left: body}
	task := r.Uvarint()
	for len(r.Left) > 0 && task < uint64(tasks) {
		key, value := r.Bytes(), r.Bytes()
		if r.Failed() {
			break
		}
		if err := fn(int(task), key, value); err != nil {
			return err
		}
	}
	if !r.Whole() {
		return fmt.Errorf("%w: rows that cannot be read", ErrExport)
	}
	return nil
}

// readLane reads the records of a frame, which alias it.
func readLane(body []byte, tasks int) (task int, source string, list []record.Record, err error) {
	r := fields.Reader{Left: body}
	at := r.Uvarint()
	source = string(r.Bytes())
	for len(r.Left) > 0 {
		x := record.Record{Timestamp: r.Varint(), Key: r.NullableBytes(), Value: r.NullableBytes()}
		for n := r.Count(2); n > 0; n-- {
			x.Headers = append(x.Headers,
				record.Header{Key: string(r.Bytes()), Value: r.NullableBytes()})
		}
		list = append(list, x)
	}
	if !r.Whole() || at >= uint64(tasks) {
		return 0, "", nil, fmt.Errorf("%w: records that cannot be read", ErrExport)
	}
	return int(at), source, list, nil
}

// StateExport is an export that was read through once: it is whole.
type StateExport struct {
	// Rows of state and Records under way between tasks that are in it.
	Rows, Records int64
	// App, About and MadeAt are what Export was told.
	App    string
	About  json.RawMessage
	MadeAt time.Time

	header exportHeader
	from   io.ReadSeeker
	frames int64 // where those behind the header begin
}

// OpenExport reads an export through and checks that it is whole.
func OpenExport(from io.ReadSeeker) (*StateExport, error) {
	f, err := openFrames(from)
	if err != nil {
		return nil, err
	}
	kind, body, err := f.next()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it ends before its header", ErrExport)
	}
	x := &StateExport{from: from, frames: f.at}
	if err == nil && kind != frameHeader {
		err = fmt.Errorf("%w: it begins with frame %q", ErrExport, kind)
	}
	if err == nil {
		err = json.Unmarshal(body, &x.header)
	}
	if err != nil {
		return nil, fmt.Errorf("read header of export: %w", err)
	}
	x.App, x.About, x.MadeAt = x.header.App, x.header.About, x.header.MadeAt
	end, err := x.scan(f, func(int, []byte, []byte) error { x.Rows++; return nil },
		func(_ int, _ string, list []record.Record) error { x.Records += int64(len(list)); return nil })
	if err != nil {
		return nil, err
	}
	if end != (exportEnd{x.Rows, x.Records}) {
		return nil, fmt.Errorf("%w: it has %d rows and %d records, its end says %d and %d", ErrExport,
			x.Rows, x.Records, end.Rows, end.Records)
	}
	return x, nil
}

// scan reads the frames behind the header.
func (x *StateExport) scan(f *frameReader, row func(task int, key, value []byte) error,
	lane func(task int, source string, list []record.Record) error,
) (end exportEnd, err error) {
	for {
		kind, body, err := f.next()
		if errors.Is(err, io.EOF) {
			return end, fmt.Errorf("%w: it has no end", ErrExport)
		}
		if err != nil {
			return end, err
		}
		switch kind {
		case frameRows:
			err = readRows(body, len(x.header.Tasks), row)
		case frameLane:
			var task int
			var source string
			var list []record.Record
			if task, source, list, err = readLane(body, len(x.header.Tasks)); err == nil {
				err = lane(task, source, list)
			}
		case frameEnd:
			err = json.Unmarshal(body, &end)
			if err == nil && f.r.Buffered() > 0 {
				err = fmt.Errorf("%w: something follows its end", ErrExport)
			}
			return end, err
		default:
			err = fmt.Errorf("%w: frame %q", ErrExport, kind)
		}
		if err != nil {
			return end, err
		}
	}
}

// Positions are where reading of the topics of the outside world goes on, the least of all tasks.
func (x *StateExport) Positions() (map[client.TopicPartition]int64, error) {
	least := map[client.TopicPartition]int64{}
	for i := range x.header.Tasks {
		t := &x.header.Tasks[i]
		c, s, err := t.decode()
		if err != nil {
			return nil, err
		}
		for tp, at := range positionsOf(c, s) {
			if was, ok := least[tp]; !x.header.internal(t, tp.Topic) && (!ok || at < was) {
				least[tp] = at
			}
		}
	}
	return least, nil
}
