package ranges

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kind tells how a position is given.
type Kind int

// The kinds of position.
const (
	Start Kind = iota
	End
	Offset    // N is an offset
	After     // N records after the reference
	Before    // N records before the end
	Timestamp // Time is an instant
	Committed // Group is a consumer group
)

// Point is one position, not yet resolved to offsets.
type Point struct {
	Kind  Kind
	N     int64
	Time  time.Time
	Group string
	text  string
}

// String gives the position as it was written.
func (p Point) String() string { return p.text }

// Grammar is the list of forms, for error texts and help.
const Grammar = "start, end, 42, +10, -10, @2026-02-14T10:00Z, @-1h or committed(GROUP)"

var committedForm = regexp.MustCompile(`^committed\((.+)\)$`)

// layouts are the accepted forms of an instant; each has a zone, because a bare local time means
// another instant on another machine.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15Z07:00", "2006-01-02Z07:00",
}

// Parse reads a position; now is the instant that relative times refer to.
func Parse(s string, now time.Time) (Point, error) {
	p := Point{text: s}
	switch {
	case s == "start":
		p.Kind = Start
	case s == "end":
		p.Kind = End
	case strings.HasPrefix(s, "@"):
		t, err := parseTime(s[1:], now)
		if err != nil {
			return Point{}, err
		}
		p.Kind, p.Time = Timestamp, t
	case committedForm.MatchString(s):
		p.Kind, p.Group = Committed, committedForm.FindStringSubmatch(s)[1]
	default:
		return parseNumber(s)
	}
	return p, nil
}

func parseNumber(s string) (Point, error) {
	digits := strings.TrimLeft(s, "+-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(s)-len(digits) > 1 || n < 0 {
		return Point{}, fmt.Errorf("%q is not a position: use %s", s, Grammar)
	}
	p := Point{Kind: Offset, N: n, text: s}
	switch {
	case strings.HasPrefix(s, "+"):
		p.Kind = After
	case strings.HasPrefix(s, "-"):
		p.Kind = Before
	}
	return p, nil
}

func parseTime(s string, now time.Time) (time.Time, error) {
	if strings.HasPrefix(s, "-") {
		d, err := time.ParseDuration(s[1:])
		if err != nil {
			return time.Time{}, fmt.Errorf("@%s is not a time: write a duration like @-1h or @-15m", s)
		}
		return now.Add(-d), nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf(
		"@%s is not a time: write @2026-02-14T10:00Z or @2026-02-14T10:00+02:00 (with its zone), or @-1h",
		s)
}
