package adapter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Record is one record as it goes over the line; []byte is base64 or null there.
type Record struct {
	Key       []byte   `json:"k"`
	Value     []byte   `json:"v"`
	Headers   []Header `json:"h"`
	Timestamp *int64   `json:"t"`
	Partition int32    `json:"p"`
	Offset    int64    `json:"o"`
}

type Header struct {
	Name  string
	Value []byte
}

func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

func (h *Header) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&h.Name, &h.Value})
}

// Request holds the fields of every operation.
type Request struct {
	Op, ID, Topic, Codec, Group, Instance, Assignor, Protocol, Consumer, Name, Value string

	TransactionalID string            `json:"transactional_id"`
	SessionMillis   int64             `json:"session_ms"`
	MaxPoll         int               `json:"max_poll"`
	Millis          int64             `json:"ms"`
	To              any               `json:"to"` // "begin", "end" or an offset
	Offsets         map[int32]int64   `json:"offsets"`
	Configs         map[string]string `json:"configs"`

	Idempotent, Committed bool
	Partition             int32
	Partitions            []int32
	Records               []Record
	Count                 int32
	Time, Before          int64
}

func (r Request) SessionTimeout() time.Duration {
	if r.SessionMillis == 0 {
		return 6 * time.Second
	}
	return time.Duration(r.SessionMillis) * time.Millisecond
}

// Any is an answer.
type Any = map[string]any

// Lacks is the error of what the client does not have.
type Lacks string

func (l Lacks) Error() string { return string(l) }

// Timeout is what every operation gets.
func Timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

// Serve answers one line for each line.
func Serve(operations map[string]func(Request) (Any, error)) {
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0) // members that were not closed end as in a crash
		}
		_ = out.Encode(answer(operations, line))
	}
}

func answer(operations map[string]func(Request) (Any, error), line []byte) (told Any) {
	defer func() {
		if p := recover(); p != nil {
			debug.PrintStack()
			told = Any{"error": fmt.Sprint("panic: ", p)}
		}
	}()
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return Any{"error": err.Error()}
	}
	operation, ok := operations[r.Op]
	if !ok {
		return Any{"lacks": ""}
	}
	ok2, err := operation(r)
	var lacks Lacks
	switch {
	case errors.As(err, &lacks):
		return Any{"lacks": string(lacks)}
	case err != nil:
		return Any{"error": err.Error()}
	}
	return Any{"ok": ok2}
}

// Version of a module this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

// Queue holds what a client pushed until a poll takes it.
type Queue struct {
	mu         sync.Mutex
	records    []Record
	assignment []int32
	events     [][2]any
	delivered  map[int32]int64
}

func (q *Queue) Push(r Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.records = append(q.records, r)
}

// Assigned tells what the member gets in addition.
func (q *Queue) Assigned(partitions []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, [2]any{"assigned", partitions})
	q.assignment = append(slices.Clone(q.assignment), partitions...)
	slices.Sort(q.assignment)
	q.assignment = slices.Compact(q.assignment)
}

// Revoked tells what the member loses; what was not polled of it is dropped, its next owner reads it again.
func (q *Queue) Revoked(partitions []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(partitions) == 0 {
		return
	}
	q.events = append(q.events, [2]any{"revoked", partitions})
	q.assignment = slices.DeleteFunc(slices.Clone(q.assignment), func(p int32) bool {
		return slices.Contains(partitions, p)
	})
	q.records = slices.DeleteFunc(q.records, func(r Record) bool {
		return slices.Contains(partitions, r.Partition)
	})
	for _, p := range partitions {
		delete(q.delivered, p)
	}
}

// Clear drops what was not polled.
func (q *Queue) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.records = nil
}

func (q *Queue) Assignment() []int32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.assignment)
}

// Poll takes up to 500 records.
func (q *Queue) Poll(millis int64) Any {
	until := time.Now().Add(time.Duration(millis) * time.Millisecond)
	for q.empty() && time.Now().Before(until) {
		time.Sleep(5 * time.Millisecond)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.records), 500)
	records := slices.Clone(q.records[:n])
	q.records = slices.Clone(q.records[n:])
	if q.delivered == nil {
		q.delivered = map[int32]int64{}
	}
	for _, r := range records {
		q.delivered[r.Partition] = r.Offset + 1
	}
	events := q.events
	q.events = nil
	return Any{"records": orEmpty(records), "assignment": orEmpty(q.assignment), "events": orEmpty(events)}
}

// Positions are the next offsets of what polls returned of the partitions the member has.
func (q *Queue) Positions() map[int32]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	positions := map[int32]int64{}
	for p, next := range q.delivered {
		if slices.Contains(q.assignment, p) {
			positions[p] = next
		}
	}
	return positions
}

func (q *Queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.records) == 0
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// DropBelow drops what was not polled and lies before an offset.
func (q *Queue) DropBelow(offset int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.records = slices.DeleteFunc(q.records, func(r Record) bool { return r.Offset < offset })
}
