package operator

import (
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/record"
)

// Headers of a dead letter, beside the original headers of the record.
const (
	HeaderDLQPipeline   = "ms-dlq-pipeline"
	HeaderDLQStep       = "ms-dlq-step"
	HeaderDLQClass      = "ms-dlq-class"
	HeaderDLQError      = "ms-dlq-error"
	HeaderDLQTopic      = "ms-dlq-topic"
	HeaderDLQPartition  = "ms-dlq-partition"
	HeaderDLQOffset     = "ms-dlq-offset"
	HeaderDLQTimestamp  = "ms-dlq-timestamp"
	HeaderDLQAttempts   = "ms-dlq-attempts"
	HeaderDLQConfigHash = "ms-dlq-config-hash"
)

// Headers of a late record in a topic of its own.
const (
	HeaderLateStep       = "ms-late-step"
	HeaderLateWindow     = "ms-late-window" // "[start,end)" or "[start,end)..[start,end)", ms
	HeaderLateStreamTime = "ms-late-stream-time"
)

// maxErrorText bounds the error text of a dead letter, in bytes.
const maxErrorText = 4096

// DeadLetter says why a record failed.
type DeadLetter struct {
	Topic, Step, Class, Message string
	Attempts                    int // 1 when it was tried once
}

// Record returns the dead letter of rec: the original key, value, timestamp and headers of the
// record it was read as, or was made for, followed by the ms-dlq headers. What time alone brought
// about, as the result of a window that closed, is given as it is.
func (d *DeadLetter) Record(rec *Record, pipeline, configHash string) record.Record {
	o := OriginOf(rec)
	h := make([]record.Header, 0, len(o.Headers)+10)
	h = appendPublic(h, o.Headers)
	h = appendText(h, HeaderDLQPipeline, pipeline)
	h = appendText(h, HeaderDLQStep, d.Step)
	h = appendText(h, HeaderDLQClass, d.Class)
	h = appendText(h, HeaderDLQError, clip(d.Message, maxErrorText))
	h = appendText(h, HeaderDLQTopic, o.Topic)
	h = appendText(h, HeaderDLQPartition, strconv.FormatInt(int64(o.Partition), 10))
	h = appendText(h, HeaderDLQOffset, strconv.FormatInt(o.Offset, 10))
	h = appendText(h, HeaderDLQTimestamp, strconv.FormatInt(o.Timestamp, 10))
	h = appendText(h, HeaderDLQAttempts, strconv.Itoa(d.Attempts))
	h = appendText(h, HeaderDLQConfigHash, configHash)
	return record.Record{Timestamp: o.Timestamp, Key: o.Key, Value: o.Value, Headers: h}
}

// Record returns the late record as it is written to a topic of its own.
func (l *LateReport) Record(rec *Record) record.Record {
	o := OriginOf(rec)
	h := make([]record.Header, 0, len(o.Headers)+3)
	h = appendPublic(h, o.Headers)
	h = appendText(h, HeaderLateStep, l.Step)
	h = appendText(h, HeaderLateWindow, l.windows())
	h = appendText(h, HeaderLateStreamTime, strconv.FormatInt(l.StreamTime, 10))
	return record.Record{Timestamp: o.Timestamp, Key: o.Key, Value: o.Value, Headers: h}
}

// windows returns the closed windows as text.
func (l *LateReport) windows() string {
	if l.First == l.Last {
		return l.First.String()
	}
	return l.First.String() + ".." + l.Last.String()
}

// appendPublic appends headers but for the rows that joins keep there.
func appendPublic(dst, headers []record.Header) []record.Header {
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, RowHeaderPrefix) {
			dst = append(dst, h)
		}
	}
	return dst
}

func appendText(h []record.Header, key, value string) []record.Header {
	return append(h, record.Header{Key: key, Value: []byte(value)})
}

// clip shortens s to n bytes without cutting a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
