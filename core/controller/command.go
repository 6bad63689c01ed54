package controller

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
)

// command is one change that somebody asks for. handle decides it on an image, the same way every
// time: it returns the records that do it and the reply, which is kept as JSON.
type command interface {
	handle(img *metadata.Image) (records []metadata.Record, reply any)
}

const entryVersion = 0

// entry is what one raft command holds.
type entry struct {
	Version  int          `json:"v"`
	Base     int64        `json:"base"` // index of the controller's entry before this one
	Commands []entryItems `json:"commands"`
}

// entryItems is a decided command.
type entryItems struct {
	Request uuid.UUID         `json:"request"`
	Records []json.RawMessage `json:"records,omitempty"`
	Reply   json.RawMessage   `json:"reply"`
}

func encodeRecords(records []metadata.Record) ([]json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(records))
	for _, r := range records {
		b, err := metadata.EncodeRecord(r)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

func decodeRecords(list []json.RawMessage) ([]metadata.Record, error) {
	records := make([]metadata.Record, 0, len(list))
	for _, b := range list {
		r, err := metadata.DecodeRecord(b)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

func decodeEntry(b []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("decode controller entry: %w", err)
	}
	if e.Version != entryVersion {
		return e, fmt.Errorf("controller entry has version %d, this build knows %d",
			e.Version, entryVersion)
	}
	return e, nil
}
