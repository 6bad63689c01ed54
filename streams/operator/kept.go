package operator

// Kept is what a row of a store says to those who look at it from outside. Slices may alias the
// row.
type Kept struct {
	Key []byte
	// Value is nil where a row says no more than that its key is there.
	Value []byte
	// Timestamp is NoTime where the row has none.
	Timestamp int64
	Window    Window
	// Side is left or right in a join, else empty.
	Side string
	// Until is the time until which a row of a table held, From that from which; From is NoTime when
	// it held from ever. Both are 0 unless the row is one of a history.
	From, Until int64
}

// StoredRow is a row as a store has it.
type StoredRow struct {
	// Start of its bucket, in stores of windows.
	Start      int64
	Key, Value []byte
	// StreamTime of the task when the row was what it is.
	StreamTime int64
}

// RowReader reads the rows of one kind of store. It belongs to one goroutine.
type RowReader interface {
	// Seek returns where the rows of a key begin in a bucket: no row of the key is before it, and no
	// row of another key between it and the last row of the key.
	Seek(key []byte) []byte
	// Read calls fn with what a row says. It may say several things, or nothing to outsiders.
	Read(row StoredRow, fn func(Kept) error) error
}
