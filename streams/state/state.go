package state

// Store is one named, ordered set of rows of one task. Keys compare as bytes. A Store belongs to
// the goroutine of its task.
type Store interface {
	// Get returns the value of key. The slice is valid until the next call on any store of the
	// task and must not be changed. An empty value is a value: ok tells whether there is a row.
	Get(key []byte) (value []byte, ok bool, err error)
	// Put sets the value of key; both are copied.
	Put(key, value []byte) error
	// Delete removes the row of key, if there is one.
	Delete(key []byte) error
	// Scan calls fn for every row with from <= key < to in key order; a nil from is the first
	// row, a nil to is after the last. The slices are valid during fn. fn must not write to the
	// store; ErrStop ends the scan, another error ends it and is returned.
	Scan(from, to []byte, fn func(key, value []byte) error) error
}

// Checker is a Store that remembers which rows were checked.
type Checker interface {
	// GetChecked is Get of a row that check is content with, and asks check once for each value. An
	// error of check is returned as it is.
	GetChecked(key []byte, check func(key, value []byte) error) (value []byte, ok bool, err error)
}

// Windows is one named set of buckets of rows, a bucket per window start (ms). Dropping a bucket
// is far cheaper than deleting its rows one by one.
type Windows interface {
	// Window returns the rows of the window that starts at start. It exists from its first Put.
	Window(start int64) Store
	// Starts returns the starts of the windows that hold rows, ascending.
	Starts() ([]int64, error)
	// Drop removes a window with all its rows.
	Drop(start int64) error
}

// Stores hands out the stores of one task by name. A name is either a Store or a Windows, never
// both. Handing out costs a map lookup, so operators keep what they get.
type Stores interface {
	// Store returns the store called name.
	Store(name string) Store
	// Windows returns the window buckets called name.
	Windows(name string) Windows
}
