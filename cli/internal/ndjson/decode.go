package ndjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line mirrors what Append writes. Only value is required to make a record.
type line struct {
	Topic     string              `json:"topic"`
	Partition *int32              `json:"partition"`
	Offset    *int64              `json:"offset"`
	TS        *int64              `json:"ts"`
	TSType    string              `json:"tsType"`
	Key       json.RawMessage     `json:"key"`
	KeyEnc    string              `json:"keyEnc"`
	Value     json.RawMessage     `json:"value"`
	ValueEnc  string              `json:"valueEnc"`
	Headers   [][]json.RawMessage `json:"headers"`
}

// Decoded is a record read from a line, and whether the line said where it was.
type Decoded struct {
	Record *kgo.Record
	// HasPartition tells that the line named a partition.
	HasPartition bool
}

// Decode reads one line. Fields that are missing are left at their zero values; a field that is not
// known is an error, so that a misspelt one is not silently dropped.
func Decode(data []byte) (Decoded, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var l line
	if err := dec.Decode(&l); err != nil {
		return Decoded{}, fmt.Errorf("not a record: %w", err)
	}
	if dec.More() {
		return Decoded{}, fmt.Errorf("not a record: something follows the object, at byte %d",
			dec.InputOffset())
	}
	if len(l.Value) == 0 {
		return Decoded{}, errors.New("not a record: value is missing; null makes a tombstone")
	}
	r := &kgo.Record{Topic: l.Topic}
	var err error
	if r.Key, err = bytesOf(l.Key, l.KeyEnc); err != nil {
		return Decoded{}, fmt.Errorf("key: %w", err)
	}
	if r.Value, err = bytesOf(l.Value, l.ValueEnc); err != nil {
		return Decoded{}, fmt.Errorf("value: %w", err)
	}
	if r.Headers, err = headersOf(l.Headers); err != nil {
		return Decoded{}, err
	}
	if l.TS != nil {
		r.Timestamp = time.UnixMilli(*l.TS)
	}
	if l.Partition != nil {
		r.Partition = *l.Partition
	}
	return Decoded{Record: r, HasPartition: l.Partition != nil}, nil
}

// bytesOf gives the bytes a field stands for. Without an encoding a JSON string is text and
// anything else stands for itself, which makes hand-written lines easy.
func bytesOf(raw json.RawMessage, enc string) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		if enc == "" || enc == encNull {
			return nil, nil
		}
		return nil, fmt.Errorf("is null but its encoding is %q", enc)
	}
	if enc == "" {
		enc = encJSON
		if raw[0] == '"' {
			enc = encUTF8
		}
	}
	switch enc {
	case encJSON:
		return []byte(raw), nil
	case encUTF8, encBase64:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("encoding %q needs a JSON string: %w", enc, err)
		}
		if enc == encUTF8 {
			return []byte(s), nil
		}
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("not base64: %w", err)
		}
		return data, nil
	default:
		return nil, fmt.Errorf("unknown encoding %q: use json, utf8, base64 or null", enc)
	}
}

func headersOf(raw [][]json.RawMessage) ([]kgo.RecordHeader, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	headers := make([]kgo.RecordHeader, 0, len(raw))
	for i, h := range raw {
		header, err := headerOf(h)
		if err != nil {
			return nil, fmt.Errorf("header %d: %w", i, err)
		}
		headers = append(headers, header)
	}
	return headers, nil
}

// headerOf reads [key, value], [key, value, encoding] or [key, value, encoding, key encoding].
func headerOf(raw []json.RawMessage) (kgo.RecordHeader, error) {
	if len(raw) < 2 || len(raw) > 4 {
		return kgo.RecordHeader{}, errors.New("want [key, value] or [key, value, encoding]")
	}
	encodings := [2]string{"", encUTF8} // of value and key
	for i, one := range raw[2:] {
		if err := json.Unmarshal(one, &encodings[i]); err != nil {
			return kgo.RecordHeader{}, fmt.Errorf("encoding: %w", err)
		}
	}
	key, err := bytesOf(raw[0], encodings[1])
	if err != nil {
		return kgo.RecordHeader{}, fmt.Errorf("key: %w", err)
	}
	value, err := bytesOf(raw[1], encodings[0])
	if err != nil {
		return kgo.RecordHeader{}, fmt.Errorf("value of %s: %w", key, err)
	}
	return kgo.RecordHeader{Key: string(key), Value: value}, nil
}
