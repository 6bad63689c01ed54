package file

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Headers of a record that could not be decoded, beside its origin.
const (
	HeaderFile = "ms-source-file"
	HeaderLine = "ms-source-line"
)

// csvLines and csvBytes are the most one csv record may span before its first line counts as
// broken.
const (
	csvLines = 1000
	csvBytes = 1 << 20
)

var byteOrderMark = []byte{0xEF, 0xBB, 0xBF}

// source reads one file.
type source struct {
	config  SourceConfig
	f       *os.File
	gz      *gzip.Reader
	lines   *lineReader
	pos     Position // after the last record added
	rotated bool     // f is not under its name any more
	rec     *sdk.Record
	columns *columns
	ahead   []line   // csv: lines that were read to find the end of a record, and given back
	fields  []string // csv: memory for the next record
	value   []byte   // csv: memory for the next record
}

// Open opens the file at the position.
func (s *source) Open(_ sdk.Ctx, c SourceConfig, position *Position) error {
	s.config, s.rec = c, sdk.NewRecord(nil, nil)
	err := s.open(position)
	if err != nil {
		err = fmt.Errorf("open source file: %w", err)
		if c.Follow && errors.Is(err, os.ErrNotExist) {
			return sdk.Retryable(err) // it may come
		}
	}
	return err
}

func (s *source) open(position *Position) (err error) {
	s.pos, s.rotated = Position{}, false
	if position == nil {
		if s.f, err = os.Open(s.config.Path); err != nil {
			return err
		}
	} else {
		s.f, s.rotated, err = position.openAt(s.config.Path, s.config.Follow)
		if s.config.Follow && errors.Is(err, os.ErrNotExist) {
			// The file of the position is gone for good; its successor is read from the start.
			return s.open(nil)
		}
		if err != nil {
			return err
		}
		s.pos = *position
	}
	if err := s.start(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", s.config.Path, err), s.Close())
	}
	return nil
}

// start makes the reader ready at s.pos and reads the header of csv.
func (s *source) start() error {
	info, err := s.f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a directory")
	case !s.packed() && info.Size() < s.pos.Offset:
		if !s.config.Follow {
			return fmt.Errorf("has %d bytes, fewer than the %d already read: it was cut short; "+
				"reset the source's position to read it from the start", info.Size(), s.pos.Offset)
		}
		s.pos = Position{} // truncated and written anew
	}
	if err := s.pos.identify(s.f); err != nil {
		return err
	}
	if err := s.rewind(); err != nil {
		return err
	}
	if s.config.format() == formatCSV {
		if err := s.header(); err != nil {
			return err
		}
	}
	if s.pos.Offset == 0 {
		return s.skipMark()
	}
	return s.skipTo(s.pos.Offset)
}

// rewind starts a reader at the start of the file.
func (s *source) rewind() error {
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var r io.Reader = s.f
	if s.packed() {
		var err error
		if s.gz, err = gzip.NewReader(s.f); err != nil {
			return err
		}
		r = s.gz
	}
	s.lines, s.ahead = newLineReader(r, s.config.MaxLine), nil
	return nil
}

func (s *source) packed() bool { return strings.HasSuffix(s.config.Path, ".gz") }

// skipTo goes to an offset of the unpacked file, from its start.
func (s *source) skipTo(offset int64) error {
	if err := s.rewind(); err != nil {
		return err
	}
	if s.gz == nil {
		_, err := s.f.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, s.gz, offset)
	return err
}

// skipMark goes past a byte order mark at the start of the file.
func (s *source) skipMark() error {
	if s.lines.fill(); s.lines.err != nil && !errors.Is(s.lines.err, io.EOF) {
		return s.lines.err
	}
	b := s.lines.buf
	switch {
	case bytes.HasPrefix(b, byteOrderMark):
		s.lines.start, s.pos.Offset = len(byteOrderMark), int64(len(byteOrderMark))
	case bytes.HasPrefix(b, []byte{0xFF, 0xFE}), bytes.HasPrefix(b, []byte{0xFE, 0xFF}):
		return errors.New("is UTF-16; convert it to UTF-8 first")
	}
	return nil
}

// header reads the header row of csv. A position beyond it stays.
func (s *source) header() error {
	at := s.pos
	s.pos.Offset, s.pos.Line = 0, 0
	if err := s.skipMark(); err != nil {
		return err
	}
	fields, n, err := s.csvRecord(true)
	if errors.Is(err, io.EOF) {
		if s.config.Follow {
			return sdk.Retryable(errors.New("has no header row yet"))
		}
		return errors.New("is empty: a csv file begins with a header row")
	}
	if err != nil {
		return fmt.Errorf("header row: %w", err)
	}
	if s.columns, err = newColumns(slices.Clone(fields), s.config.Types); err != nil {
		return err
	}
	s.advance(n)
	if at.Offset > s.pos.Offset {
		s.pos = at
	}
	return nil
}

// advance counts lines as read.
func (s *source) advance(read []line) {
	for _, l := range read {
		s.pos.Offset += l.size
		s.pos.Line++
	}
}

// Read adds lines until out is full or nothing is left.
func (s *source) Read(ctx sdk.Ctx, out *sdk.Out[Position]) error {
	for !out.Full() {
		err := s.add(out)
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s after line %d: %w", s.config.Path, s.pos.Line, err)
		}
		if !s.config.Follow {
			s.setPosition(out)
			return io.EOF
		}
		if out.Len() > 0 {
			break
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	s.setPosition(out)
	return nil
}

func (s *source) setPosition(out *sdk.Out[Position]) {
	if s.pos.Prefix < fingerprintBytes && s.gz == nil { // the file was short when it was identified
		_ = s.pos.identify(s.f)
	}
	out.SetPosition(s.pos)
}

// add adds the next record to out.
func (s *source) add(out *sdk.Out[Position]) error {
	if s.config.format() == formatCSV {
		return s.addCSV(out)
	}
	l, err := s.nextLine(s.whole())
	if err != nil {
		return err
	}
	number := s.pos.Line + 1
	s.advance([]line{l})
	var bad error
	if s.config.format() == formatNDJSON {
		if len(bytes.TrimSpace(l.text)) == 0 && s.config.EmptyLines == "skip" {
			return nil
		}
		bad = checkJSON(l.text)
	}
	s.emit(out, l, number, l.text, bad)
	return nil
}

// emit adds a record, flagged when bad is set or the line was cut.
func (s *source) emit(out *sdk.Out[Position], l line, number int64, value []byte, bad error) {
	if l.cut() {
		bad = fmt.Errorf("line of %d bytes is longer than max_line_bytes %d; the rest is left out",
			l.length, s.config.MaxLine)
	}
	r := s.rec
	r.SetOrigin(s.config.Path, number)
	if value == nil {
		value = []byte{}
	}
	r.SetValue(value)
	if bad == nil {
		out.Add(r)
		return
	}
	r.SetHeader(HeaderFile, []byte(s.config.Path))
	r.SetHeader(HeaderLine, strconv.AppendInt(nil, number, 10))
	out.Fail(r, sdk.ClassDecode, fmt.Errorf("%s:%d: %w", s.config.Path, number, bad))
	r.DeleteHeader(HeaderFile)
	r.DeleteHeader(HeaderLine)
}

// checkJSON says why a line is not a JSON value.
func checkJSON(text []byte) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("empty line")
	case !utf8.Valid(text):
		return errors.New("not UTF-8")
	case json.Valid(text):
		return nil
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

// whole says that nothing will be added to the file: its last line needs no line end.
func (s *source) whole() bool { return !s.config.Follow || s.rotated }

// nextLine returns the next line; with last also one without a line end.
func (s *source) nextLine(last bool) (line, error) {
	if len(s.ahead) > 0 {
		l := s.ahead[0]
		s.ahead = s.ahead[1:]
		return l, nil
	}
	l, err := s.lines.next()
	if errors.Is(err, io.EOF) && last {
		if l, ok := s.lines.rest(); ok {
			return l, nil
		}
	}
	return l, err
}

// addCSV adds the next csv record.
func (s *source) addCSV(out *sdk.Out[Position]) error {
	fields, read, err := s.csvRecord(s.whole())
	if read == nil {
		return err
	}
	number := s.pos.Line + 1
	var value []byte
	if err == nil && len(read) == 1 && len(read[0].text) == 0 {
		s.advance(read)
		if s.config.EmptyLines == "error" {
			s.emit(out, read[0], number, nil, errors.New("empty line"))
		}
		return nil
	}
	if err == nil {
		s.value, err = s.columns.object(s.value[:0], fields)
		value = s.value
	}
	if err == nil && !utf8.Valid(value) {
		err = errors.New("not UTF-8")
	}
	if err != nil { // only its first line is to blame: what follows is looked at again
		s.ahead = append(read[1:len(read):len(read)], s.ahead...)
		read = read[:1]
		value = read[0].text
	}
	s.advance(read)
	s.emit(out, read[0], number, value, err)
	return nil
}

// csvRecord reads the lines of one record. Without read there was no whole one: err is io.EOF
// or that of the file. With read, err says why they are not a record.
func (s *source) csvRecord(last bool) (fields []string, read []line, err error) {
	delimiter := s.config.Delimiter[0]
	var text []byte
	for {
		l, err := s.nextLine(last)
		if err != nil {
			if errors.Is(err, io.EOF) && len(read) > 0 && last {
				return nil, read, errQuote
			}
			s.ahead = append(read, s.ahead...)
			return nil, nil, err
		}
		l.text = bytes.Clone(l.text) // more lines may be read before this one is used
		read = append(read, l)
		if len(read) > 1 {
			text = append(text, '\n')
		}
		text = append(text, l.text...)
		if l.cut() || !utf8.Valid(l.text) {
			if !l.cut() {
				err = errors.New("not UTF-8")
			}
			return nil, read, err
		}
		s.fields, err = csvFields(text, delimiter, s.fields)
		if err == nil || !errors.Is(err, errQuote) || len(text) > csvBytes || len(read) == csvLines {
			return s.fields, read, err
		}
	}
}

// wait waits for more at the end of the file: growth, or another file under the path.
func (s *source) wait(ctx sdk.Ctx) error {
	timer := time.NewTimer(s.config.Poll)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < s.pos.Offset {
		ctx.Log().Warn("file was truncated, reading it from the start", "file", s.config.Path)
		return s.reopen()
	}
	s.lines.again()
	current, err := os.Stat(s.config.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the next file is not there yet
	} else if err != nil {
		return err
	}
	if os.SameFile(info, current) {
		return nil
	}
	// Rotated: what was added to the old file since the last look is read before the new one.
	if s.rotated {
		ctx.Log().Info("file was rotated, going on with its successor", "file", s.config.Path)
		return s.reopen()
	}
	s.rotated = true
	return nil
}

func (s *source) reopen() error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.open(nil)
}

// Commit has nothing to do: the file stays.
func (s *source) Commit(sdk.Ctx, Position) error { return nil }

// Close closes the file.
func (s *source) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
