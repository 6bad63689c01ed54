package task

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// LaneHeader is the header every record written by a task (or a connector source) carries.
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
	// Ended marks the last control record of a writer whose bounded input has ended or which is
	// idle: nobody waits for it until it writes again.
	Ended bool
}

// ErrLane reports a lane header that this package did not write.
var ErrLane = errors.New("malformed lane header")

// Layout of a lane header, integers big endian:
//
//	0      1        9       17
//	+------+--------+-------+----------+
//	| bits | seq i64| W i64 | writer   |      bit 0 control, bit 1 ended
//	+------+--------+-------+----------+
const (
	laneFixed   = 17
	laneControl = 1
	laneEnded   = 2
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
	if len(b) < laneFixed || b[0]&^(laneControl|laneEnded) != 0 {
		return Lane{}, nil, fmt.Errorf("parse %d bytes: %w", len(b), ErrLane)
	}
	return Lane{
		Seq:     int64(binary.BigEndian.Uint64(b[1:])),
		W:       int64(binary.BigEndian.Uint64(b[9:])),
		Control: b[0]&laneControl != 0,
		Ended:   b[0]&laneEnded != 0,
	}, b[laneFixed:], nil
}
