package generate

import (
	"io"
	"math/rand/v2"
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// paceInterval is how often records are made when there is a rate.
const paceInterval = 20 * time.Millisecond

// Position is the number of the next record.
type Position struct {
	Next int64 `json:"next"`
}

// source makes records.
type source struct {
	config Config
	start  time.Time // of record 0
	next   int64
	opened time.Time // pace is counted from here
	first  int64     // record that was next then
	rec    *sdk.Record
	value  []byte
	pcg    *rand.PCG
	random *rand.Rand
}

// Open starts at the position.
func (s *source) Open(_ sdk.Ctx, c Config, p *Position) (err error) {
	if len(c.Fields) == 0 {
		c.Fields = defaultFields
	}
	s.config = c
	if s.start, err = time.Parse(time.RFC3339, c.Start); err != nil {
		return err
	}
	if p != nil {
		s.next = p.Next
	}
	s.opened, s.first = time.Now(), s.next
	s.rec = sdk.NewRecord(nil, nil)
	s.pcg = rand.NewPCG(0, 0)
	s.random = rand.New(s.pcg)
	return nil
}

// Read makes as many records as are due.
func (s *source) Read(ctx sdk.Ctx, out *sdk.Out[Position]) error {
	due, err := s.due(ctx)
	if err != nil {
		return err
	}
	for ; due > 0 && !out.Full(); due-- {
		if s.config.Count > 0 && s.next >= s.config.Count {
			break
		}
		s.make(s.next)
		out.Add(s.rec)
		s.next++
	}
	if s.config.Count > 0 && s.next >= s.config.Count {
		out.SetPosition(Position{s.next})
		return io.EOF
	}
	if out.Len() > 0 {
		out.SetPosition(Position{s.next})
	}
	return nil
}

// make fills rec with record n.
func (s *source) make(n int64) {
	s.pcg.Seed(uint64(s.config.Seed), uint64(n))
	at := s.start.Add(time.Duration(n) * s.config.Step)
	s.value = appendRecord(s.value[:0], s.config.Fields, n, at, s.random)
	s.rec.SetValue(s.value)
	s.rec.SetTimestamp(at)
	s.rec.SetOrigin("generate", n)
}

// due waits until records are due and says how many.
func (s *source) due(ctx sdk.Ctx) (int64, error) {
	if s.config.Rate == 0 {
		return 1 << 40, nil
	}
	for {
		n := int64(time.Since(s.opened).Seconds()*s.config.Rate) - (s.next - s.first)
		if n > 0 {
			return n, nil
		}
		timer := time.NewTimer(paceInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
	}
}

// Commit has nothing to do.
func (s *source) Commit(sdk.Ctx, Position) error { return nil }

// Close has nothing to do.
func (s *source) Close() error { return nil }
