package operator

import (
	"encoding/json"
	"fmt"
)

// EncodeFunc returns the key and value a record is written with.
type EncodeFunc func(rec *Record) (key, value []byte, err error)

// Encode is the EncodeFunc used where none is given: the key and the value bytes as they are; a
// decoded value that is newer than them as JSON.
func Encode(rec *Record) (key, value []byte, err error) {
	if !rec.Dirty {
		return rec.Key, rec.Value, nil
	}
	if rec.Doc == nil {
		return rec.Key, nil, nil
	}
	value, err = json.Marshal(rec.Doc)
	if err != nil {
		return nil, nil, fmt.Errorf("encode value as JSON: %w", err)
	}
	return rec.Key, value, nil
}
