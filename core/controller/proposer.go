package controller

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
)

// propose is the proposer's goroutine: it takes the commands that wait, decides them together, and
// puts them into one entry, so that many share one sync of the disk.
func (c *Controller) propose() {
	for {
		var batch []*call
		select {
		case p := <-c.commands:
			batch = append(batch, p)
		case <-c.lifetime.Done():
			return
		case <-c.node.Done():
			return
		}
		for len(batch) < maxEntryCommands && len(c.commands) > 0 {
			batch = append(batch, <-c.commands) // the only receiver, so it is there
		}
		for len(batch) > 0 {
			batch = c.run(batch)
		}
	}
}

// run decides and applies a batch of calls and answers them. It returns those to decide again.
func (c *Controller) run(batch []*call) (again []*call) {
	s, _ := c.machine.current()
	d, again := decide(s, batch)
	for p, err := range d.failed {
		p.result <- callResult{err: err}
	}
	if len(d.entry.Commands) > 0 {
		if err := c.commit(d.entry); err != nil {
			for _, p := range d.calls {
				p.result <- callResult{err: err}
			}
			return again
		}
	}
	s, _ = c.machine.current()
	c.awaitPublished(s.image.Version())
	for _, p := range d.calls {
		if reply, ok := s.reply(p.request); ok {
			p.result <- callResult{reply: reply}
		} else {
			again = append(again, p) // the entry was decided on an older state
		}
	}
	return again
}

// decided is the outcome of decide.
type decided struct {
	entry  entry
	calls  []*call // in the entry, or answered before
	failed map[*call]error
}

// decide runs commands on a state one after the other, each on the image the ones before it leave.
// Commands that do not fit into the entry any more are returned. It is pure.
func decide(s state, batch []*call) (d decided, rest []*call) {
	d.entry = entry{Version: entryVersion, Base: s.image.Version()}
	d.failed = make(map[*call]error)
	delta := metadata.NewDelta(s.image)
	size := 0
	seen := make(map[uuid.UUID]bool)
	for i, p := range batch {
		if size > maxEntryBytes {
			return d, batch[i:]
		}
		if _, done := s.reply(p.request); done || seen[p.request] {
			d.calls = append(d.calls, p)
			continue
		}
		records, reply := p.command.handle(delta.Peek())
		item, err := encodeItems(p.request, records, reply)
		if err != nil {
			d.failed[p] = err
			continue
		}
		next, err := applied(delta, records)
		if err != nil {
			d.failed[p] = fmt.Errorf("decide a controller command: %w", err)
			continue
		}
		delta = next
		seen[p.request] = true
		d.calls = append(d.calls, p)
		d.entry.Commands = append(d.entry.Commands, item)
		for _, r := range item.Records {
			size += len(r)
		}
	}
	return d, nil
}

// applied returns a delta with the records on top, and leaves delta as it was if one does not fit.
func applied(delta *metadata.Delta, records []metadata.Record) (*metadata.Delta, error) {
	next := metadata.NewDelta(delta.Peek())
	for _, r := range records {
		if err := next.Apply(r); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func encodeItems(
	request uuid.UUID, records []metadata.Record, reply any,
) (entryItems, error) {
	list, err := encodeRecords(records)
	if err != nil {
		return entryItems{}, err
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return entryItems{}, fmt.Errorf("encode reply: %w", err)
	}
	return entryItems{Request: request, Records: list, Reply: text}, nil
}

// commit puts an entry through raft.
func (c *Controller) commit(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode controller entry: %w", err)
	}
	_, err = c.node.Propose(c.lifetime, data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("%w: %w", ErrNotController, err)
	case errors.Is(err, raft.ErrOutcomeUnknown):
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case c.lifetime.Err() != nil, errors.Is(err, raft.ErrClosed):
		return ErrClosed
	case errors.Is(err, raft.ErrFailed):
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return err
}
