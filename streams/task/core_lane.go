package task

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// LaneHeader is the header of every record of a repartition topic, and of what a connector source
// writes.
const LaneHeader = operator.HeaderLane

// Lane says who wrote a record, in which order and at which time of the writer.
type Lane struct {
	// Writer is the name of the writing task or connector task.
	Writer string
	// Seq increases with every data record of the writer; a control record repeats the last.
	Seq int64
	// W is the stream time of the writer: no record with an effective time below W follows.
	W int64
	// Control marks a record that only carries W.
	Control bool
	// Ended, in a control record: the bounded input of the writer has ended.
	Ended bool
	// Idle, in a control record: nobody has to wait for the writer until it writes again.
	Idle bool
}

// ErrLane reports a lane header that this package did not write, or its absence.
var ErrLane = errors.New("malformed or missing lane header")

// Layout of a lane header, integers big endian:
//
//	0      1         9       17
//	+------+---------+-------+----------+
//	| bits | seq i64 | W i64 | writer   |     bit 0 control, bit 1 ended, bit 2 idle
//	+------+---------+-------+----------+
const (
	laneSeqAt   = 1
	laneTimeAt  = 9
	laneFixed   = 17
	laneControl = 1
	laneEnded   = 2
	laneIdle    = 4
)

// AppendLane appends the encoded header value of l.
func AppendLane(dst []byte, l Lane) []byte {
	var bits byte
	if l.Control {
		bits |= laneControl
	}
	if l.Ended {
		bits |= laneEnded
	}
	if l.Idle {
		bits |= laneIdle
	}
	dst = append(dst, bits)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.Seq))
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.W))
	return append(dst, l.Writer...)
}

// ParseLane reads a header value.
func ParseLane(b []byte) (Lane, error) {
	l, writer, err := parseLane(b)
	l.Writer = string(writer)
	return l, err
}

// parseLane reads a header value without making a string of the writer, which aliases b.
func parseLane(b []byte) (l Lane, writer []byte, err error) {
	if len(b) < laneFixed || b[0]&^(laneControl|laneEnded|laneIdle) != 0 {
		return Lane{}, nil, fmt.Errorf("parse %d bytes: %w", len(b), ErrLane)
	}
	return Lane{
		Seq:     int64(binary.BigEndian.Uint64(b[laneSeqAt:])),
		W:       int64(binary.BigEndian.Uint64(b[laneTimeAt:])),
		Control: b[0]&laneControl != 0,
		Ended:   b[0]&laneEnded != 0,
		Idle:    b[0]&laneIdle != 0,
	}, b[laneFixed:], nil
}
