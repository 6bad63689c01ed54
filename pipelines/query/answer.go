package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// Answer is the rows of a step or table.
type Answer struct {
	Pipeline string `json:"pipeline"`
	Node     string `json:"node"`
	Rows     []Row  `json:"rows"`
	// More tells that there are more rows than the limit.
	More bool `json:"more,omitempty"`
	// Partitions that were looked at, and how far each was.
	Partitions []Partition `json:"partitions"`
	// Elsewhere are partitions whose task runs in another worker, which has to be asked.
	Elsewhere []Place `json:"elsewhere,omitempty"`
	// Missing are partitions that nobody can look at now, where stale rows would have done.
	Missing []Partition `json:"missing,omitempty"`
}

// Place is a task and the worker that runs it.
type Place struct {
	Partition int32  `json:"partition"`
	Address   string `json:"address"`
}

// Row is one thing a row of a store says.
type Row struct {
	Partition int32 `json:"partition"`
	// Store tells the stores of a node apart that has several, such as the sides of a join.
	Store string          `json:"store,omitempty"`
	Key   json.RawMessage `json:"key"`
	// Value is absent where the row says only that its key was seen.
	Value json.RawMessage `json:"value,omitempty"`
	// Timestamp in ms: of the result, the record or the version.
	Timestamp *int64 `json:"ts,omitempty"`
	Window    *Span  `json:"window,omitempty"`
	Side      string `json:"side,omitempty"`
	// Until in ms is when another version took the place of this one.
	Until *int64 `json:"until,omitempty"`
}

// Span is a window, in ms. The end of a session, sliding or count window belongs to it.
type Span struct {
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	Inclusive bool  `json:"inclusive,omitempty"`
}

// Partition is how far the rows of a task are.
type Partition struct {
	Task      string     `json:"task"`
	Partition int32      `json:"partition"`
	Phase     task.Phase `json:"phase"`
	// Changelog offsets: Position is the first one that is not in the rows, End follows the last
	// commit, Lag is what is between them.
	Changelog string `json:"changelog,omitempty"`
	Position  int64  `json:"position"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	// Whole is false while a restore stands between two commits.
	Whole bool `json:"whole"`
	// Restored of ToRestore records, while the task is restored.
	Restored  int64 `json:"restored,omitempty"`
	ToRestore int64 `json:"to_restore,omitempty"`
	// Inputs are where reading goes on for these rows.
	Inputs []Input `json:"inputs,omitempty"`
	// StreamTime is the event time up to which the rows are, in ms.
	StreamTime *int64    `json:"stream_time,omitempty"`
	LastCommit time.Time `json:"last_commit,omitzero"`
	Bytes      int64     `json:"bytes"`
}

// Input is an input partition: records from Position on are not in the rows.
type Input struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"`
	Lag       int64  `json:"lag"`
}

// Listing is what there is to look at in a pipeline.
type Listing struct {
	Pipeline string        `json:"pipeline"`
	Stores   []StoreStatus `json:"stores"`
	// Elsewhere are tasks of other workers.
	Elsewhere []Place `json:"elsewhere,omitempty"`
}

// StoreStatus is one store and its tasks.
type StoreStatus struct {
	Node       string      `json:"node"`
	Store      string      `json:"store"`
	Kind       string      `json:"kind"`
	Sub        string      `json:"sub"`
	Partitions []Partition `json:"partitions"`
}

// partitionOf describes where rows stand.
func partitionOf(p *task.Part, at task.Position, size int64) Partition {
	out := Partition{Task: p.Name, Partition: p.Partition, Phase: p.Phase, Changelog: at.Changelog,
		Position: at.Next, End: at.End, Lag: at.Lag, Whole: at.Whole, LastCommit: at.LastCommit,
		Bytes: size}
	if at.StreamTime != operator.NoTime {
		out.StreamTime = &at.StreamTime
	}
	for _, in := range at.Inputs {
		out.Inputs = append(out.Inputs, Input{in.Topic, in.Partition, in.Position, in.Lag})
	}
	if !p.Fresh() {
		out.Restored, out.ToRestore = p.Restored()
	}
	return out
}

// rowOf is what a row says, in JSON. It shares no memory with k.
func (s *Store) rowOf(partition int32, k operator.Kept) Row {
	row := Row{Partition: partition, Store: s.Part, Key: jsonOf(s.Key, k.Key), Side: k.Side,
		Timestamp: &k.Timestamp}
	if k.Value != nil {
		row.Value = jsonOf(s.Value, k.Value)
	}
	if k.Timestamp == operator.NoTime {
		row.Timestamp = nil
	}
	if k.Window != (operator.Window{}) {
		row.Window = &Span{k.Window.Start, k.Window.End, k.Window.Inclusive}
	}
	if k.Until != 0 {
		row.Until = &k.Until
	}
	return row
}

// jsonOf shows bytes as JSON: themselves where they are JSON, text as a string, and what is neither
// as {"base64": ...}.
func jsonOf(f expression.Format, b []byte) json.RawMessage {
	switch {
	case f == expression.FormatJSON && json.Valid(b):
		return slices.Clone(b)
	case f != expression.FormatBytes && utf8.Valid(b):
		return text(string(b))
	}
	return json.RawMessage(`{"base64":"` + base64.StdEncoding.EncodeToString(b) + `"}`)
}

// text is a string as JSON.
func text(s string) []byte {
	out, err := expression.AppendJSON(nil, s)
	if err != nil { // a string always encodes
		panic("invariant: a string is JSON: " + err.Error())
	}
	return out
}

// keysOf are the bytes a key given as JSON or as plain text may have in a store.
func keysOf(f expression.Format, given string) [][]byte {
	var asText string
	var raw struct {
		Base64 *[]byte `json:"base64"`
	}
	isText := json.Unmarshal([]byte(given), &asText) == nil
	if json.Unmarshal([]byte(given), &raw) == nil && raw.Base64 != nil {
		return [][]byte{*raw.Base64}
	}
	if f != expression.FormatJSON {
		if isText {
			return [][]byte{[]byte(asText)}
		}
		return [][]byte{[]byte(given)}
	}
	if !json.Valid([]byte(given)) {
		return [][]byte{text(given)}
	}
	keys := [][]byte{[]byte(given)}
	add := func(key []byte) {
		if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			keys = append(keys, key)
		}
	}
	if isText {
		add(text(asText))
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(given)) == nil {
		add(compact.Bytes())
	}
	return keys
}
