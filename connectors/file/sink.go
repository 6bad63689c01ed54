package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// sink appends records to one file.
type sink struct {
	config  SinkConfig
	f       *os.File
	journal *journal
	encode  encoder
	chunk   []byte // memory for the next write
}

// Open makes file and journal, or brings them to the last state that is complete in both.
func (s *sink) Open(ctx sdk.Ctx, c SinkConfig, committed sdk.Offsets) (err error) {
	s.config = c
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
		return fmt.Errorf("open sink file: %w", err)
	}
	s.journal, err = openJournal(c.Path)
	if err != nil {
		if errors.Is(err, errLocked) {
			return sdk.Retryable(err) // the process before is about to end
		}
		return fmt.Errorf("open sink file: %w", err)
	}
	if err := s.open(ctx, committed); err != nil {
		return errors.Join(fmt.Errorf("open sink file: %w", err), s.Close())
	}
	return nil
}

func (s *sink) open(ctx sdk.Ctx, committed sdk.Offsets) error {
	var err error
	if s.f, err = os.OpenFile(s.config.Path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	fresh := s.journal.last().To == 0
	dropped, err := s.journal.reconcile(s.f, s.config.Path)
	if err != nil {
		return err
	}
	if dropped > 0 {
		ctx.Log().Info("dropped an incomplete write of the process before",
			"file", s.config.Path, "bytes", dropped)
	}
	if err := s.compare(ctx, committed, fresh); err != nil {
		return err
	}
	s.encode = ndjson{}
	if s.config.format() == formatCSV {
		s.encode = &csv{columns: s.config.Columns, written: s.journal.last().Columns}
	}
	return nil
}

// compare looks whether the file holds what the pipeline believes it wrote.
func (s *sink) compare(ctx sdk.Ctx, committed sdk.Offsets, fresh bool) error {
	for tp, offset := range committed {
		has, ok := s.journal.next(tp)
		switch {
		case fresh && !ok:
			ctx.Log().Warn("sink file is new, but records were written before; they are not in it",
				"file", s.config.Path, "topic", tp.Topic, "partition", tp.Partition, "before", offset)
		case has < offset:
			return fmt.Errorf("%s ends at offset %d of %s/%d, but up to %d was acknowledged: "+
				"an older copy of the file was put in its place",
				s.config.Path, has, tp.Topic, tp.Partition, offset)
		}
	}
	return nil
}

// Write appends the records that are not in the file yet and returns when they are on the disk.
func (s *sink) Write(ctx sdk.Ctx, records *sdk.Records) error {
	s.chunk = s.chunk[:0]
	offsets := sdk.Offsets{}
	for i := range records.Len() {
		r := records.At(i)
		tp := sdk.TopicPartition{Topic: r.Topic(), Partition: r.Partition()}
		next, ok := offsets[tp]
		if !ok {
			next, _ = s.journal.next(tp)
		}
		if r.Offset() < next {
			continue // written before a crash
		}
		offsets[tp] = r.Offset() + 1
		out, err := s.encode.record(s.chunk, r)
		if err != nil {
			records.Fail(i, fmt.Errorf("write to %s: %w", s.config.Path, err))
			continue
		}
		s.chunk = out
	}
	if len(offsets) == 0 {
		return nil
	}
	if err := s.journal.write(s.f, s.chunk, offsets, s.encode.names()); err != nil {
		// The host opens the sink again, which brings the file back to its last complete state, and
		// sends the records again: a full disk is waited out.
		return sdk.Fatal(sdk.Retryable(fmt.Errorf("write to %s: %w", s.config.Path, err)))
	}
	return nil
}

// Close closes the file; the journal keeps where it ends.
func (s *sink) Close() error {
	var errs []error
	if s.f != nil {
		errs = append(errs, s.f.Close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.close())
	}
	s.f, s.journal = nil, nil
	return errors.Join(errs...)
}
