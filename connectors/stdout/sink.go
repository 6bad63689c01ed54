package stdout

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// sink prints records.
type sink struct {
	config Config
	buf    bytes.Buffer
}

// Open has nothing to do.
func (s *sink) Open(_ sdk.Ctx, c Config, _ sdk.Offsets) error {
	s.config = c
	return nil
}

// record is a line of format record.
type record struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp string          `json:"timestamp,omitempty"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
}

// Write prints the records with one write.
func (s *sink) Write(ctx sdk.Ctx, records *sdk.Records) error {
	s.buf.Reset()
	for i := range records.Len() {
		if err := s.print(records.At(i)); err != nil {
			records.Fail(i, err)
		}
	}
	_, err := ctx.Output().Write(s.buf.Bytes())
	return err
}

func (s *sink) print(r *sdk.Record) error {
	value := asJSON(r.Value())
	if s.config.Format == "value" {
		if bytes.IndexByte(value, '\n') < 0 {
			s.buf.Write(value)
		} else if err := json.Compact(&s.buf, value); err != nil {
			return err
		}
		s.buf.WriteByte('\n')
		return nil
	}
	line := record{
		Topic: r.Topic(), Partition: r.Partition(), Offset: r.Offset(),
		Key: asText(r.Key()), Value: value,
	}
	if t := r.Timestamp(); !t.IsZero() {
		line.Timestamp = t.Format(time.RFC3339Nano)
	}
	e := json.NewEncoder(&s.buf)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}

// asJSON returns b when it is JSON, and asText of it otherwise.
func asJSON(b []byte) json.RawMessage {
	if len(b) > 0 && json.Valid(b) && utf8.Valid(b) {
		return b
	}
	return asText(b)
}

// asText returns null for null, b as a JSON string when it is text, and one of base64 otherwise.
func asText(b []byte) json.RawMessage {
	if b == nil {
		return json.RawMessage("null")
	}
	var v any = b // marshals as base64
	if utf8.Valid(b) {
		v = string(b)
	}
	out := bytes.Buffer{}
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage("null") // a string always encodes
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}

// Close has nothing to do.
func (s *sink) Close() error { return nil }
