package pluginpb

import "fmt"

// Split calls send with the pieces of frame, each at most ChunkBytes long; more is false for
// the last. An empty frame is one empty piece.
func Split(frame []byte, send func(piece []byte, more bool) error) error {
	for len(frame) > ChunkBytes {
		if err := send(frame[:ChunkBytes:ChunkBytes], true); err != nil {
			return err
		}
		frame = frame[ChunkBytes:]
	}
	return send(frame, false)
}

// Joiner puts the pieces of a frame together. The zero value is ready.
type Joiner struct {
	seq  uint64
	buf  []byte
	open bool // pieces were added and more follow
}

// Add takes the next piece. done is true with the whole frame, which belongs to the caller.
// Pieces of two frames must not mix, and a frame is bounded by MaxFrameBytes.
func (j *Joiner) Add(seq uint64, piece []byte, more bool) (frame []byte, done bool, err error) {
	if j.open && seq != j.seq {
		return nil, false, fmt.Errorf("%w: piece of %d inside frame %d", ErrBadFrame, seq, j.seq)
	}
	if !j.open && !more {
		if len(piece) > MaxFrameBytes {
			return nil, false, fmt.Errorf("frame %d: %w", seq, ErrFrameTooLarge)
		}
		return piece, true, nil
	}
	if len(j.buf)+len(piece) > MaxFrameBytes {
		return nil, false, fmt.Errorf("frame %d: %w", seq, ErrFrameTooLarge)
	}
	j.seq, j.open = seq, more
	j.buf = append(j.buf, piece...)
	PutBuffer(piece)
	if more {
		return nil, false, nil
	}
	frame, j.buf = j.buf, nil
	return frame, true, nil
}
