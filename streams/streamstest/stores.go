package streamstest

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
)

// Stores keep the state of one task in memory. Changes since the last Commit can be taken back.
type Stores struct {
	kv      map[string]*Store
	windows map[string]*Windows
	undo    []func()
}

// NewStores returns empty stores.
func NewStores() *Stores {
	return &Stores{kv: map[string]*Store{}, windows: map[string]*Windows{}}
}

var _ state.Stores = (*Stores)(nil)

// Store implements state.Stores.
func (s *Stores) Store(name string) state.Store {
	if s.kv[name] == nil {
		s.kv[name] = newStore(s)
	}
	return s.kv[name]
}

// Windows implements state.Stores.
func (s *Stores) Windows(name string) state.Windows {
	if s.windows[name] == nil {
		s.windows[name] = &Windows{stores: s, byStart: map[int64]*Store{}}
	}
	return s.windows[name]
}

// Commit makes all changes final.
func (s *Stores) Commit() { s.undo = s.undo[:0] }

// Rollback takes back all changes since Commit.
func (s *Stores) Rollback() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	s.undo = s.undo[:0]
}

// Store is a state.Store in memory.
type Store struct {
	stores *Stores
	rows   map[string][]byte
}

func newStore(s *Stores) *Store { return &Store{stores: s, rows: map[string][]byte{}} }

// Get implements state.Store.
func (s *Store) Get(key []byte) ([]byte, bool, error) {
	v, ok := s.rows[string(key)]
	return v, ok, nil
}

// remember lets Rollback restore the row of key.
func (s *Store) remember(key string) {
	old, ok := s.rows[key]
	s.stores.undo = append(s.stores.undo, func() {
		if ok {
			s.rows[key] = old
		} else {
			delete(s.rows, key)
		}
	})
}

// Put implements state.Store.
func (s *Store) Put(key, value []byte) error {
	s.remember(string(key))
	s.rows[string(key)] = append([]byte{}, value...)
	return nil
}

// Delete implements state.Store.
func (s *Store) Delete(key []byte) error {
	s.remember(string(key))
	delete(s.rows, string(key))
	return nil
}

// Scan implements state.Store.
func (s *Store) Scan(from, to []byte, fn func(key, value []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(s.rows)) {
		key := []byte(k)
		if bytes.Compare(key, from) < 0 {
			continue
		}
		if to != nil && bytes.Compare(key, to) >= 0 {
			return nil
		}
		if err := fn(key, s.rows[k]); errors.Is(err, state.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Windows are state.Windows in memory.
type Windows struct {
	stores  *Stores
	byStart map[int64]*Store
}

// Window implements state.Windows.
func (w *Windows) Window(start int64) state.Store {
	if w.byStart[start] == nil {
		w.byStart[start] = newStore(w.stores)
	}
	return w.byStart[start]
}

// Starts implements state.Windows.
func (w *Windows) Starts() ([]int64, error) {
	var starts []int64
	for start, s := range w.byStart {
		if len(s.rows) > 0 {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts, nil
}

// Drop implements state.Windows.
func (w *Windows) Drop(start int64) error {
	if s := w.byStart[start]; s != nil {
		old := s.rows
		s.rows = map[string][]byte{}
		w.stores.undo = append(w.stores.undo, func() { s.rows = old })
	}
	return nil
}
