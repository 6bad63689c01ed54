package state

import "sync/atomic"

// Budget bounds the memory that the states of a process take together: half of it for rows that are
// not in their files yet, half for rows that are kept for reading. Any number of goroutines may use
// it.
type Budget struct {
	limit  int64
	dirty  atomic.Int64 // changed rows of all states: uncommitted, or not in the file
	states atomic.Int64 // that are open
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Limit is what it was made with.
func (b *Budget) Limit() int64 { return b.limit }

// Dirty is the size of the changed rows of all states.
func (b *Budget) Dirty() int64 { return b.dirty.Load() }

// Memory is what a state takes of the budget.
type Memory struct {
	// Dirty are the bytes of changed rows: uncommitted, or committed and not in the file yet.
	Dirty int64
	// Cached are those of rows that are kept for reading.
	Cached int64
	// Evicted counts rows that were no longer kept, so the next read of them is of the file.
	Evicted int64
}

// Memory tells what the state takes of the budget now.
func (db *DB) Memory() Memory {
	dirty := db.pendingBytes + db.dirtyBytes
	return Memory{Dirty: dirty, Cached: max(0, db.cacheBytes-dirty), Evicted: db.evicted}
}

// leastShare is what a state gets however many there are.
const leastShare = 1 << 20

// share is the part of one state in either half.
func (b *Budget) share() int64 {
	return max(leastShare, b.limit/2/max(1, b.states.Load()))
}

// account tells the budget what the state takes, as it has changed since the last time.
func (db *DB) account() {
	b := db.opts.Budget
	if b == nil || db.file == nil {
		return
	}
	now := db.pendingBytes + db.dirtyBytes
	b.dirty.Add(now - db.accounted)
	db.accounted = now
}

// leave takes the state out of the budget.
func (db *DB) leave() {
	if b := db.opts.Budget; b != nil && db.file != nil {
		b.dirty.Add(-db.accounted)
		db.accounted = 0
		b.states.Add(-1)
	}
}

// Pressed tells that changed rows have to be committed, or written to the file, earlier than usual:
// all states together take more than their half of the budget, and this one more than its share.
func (db *DB) Pressed() bool {
	db.account()
	b := db.opts.Budget
	return b != nil && db.file != nil && b.Dirty() > b.limit/2 && db.accounted > b.share()
}

// Full tells that changed rows take so much that nothing may be added to them: the file does not
// take them.
func (db *DB) Full() bool {
	db.account()
	b := db.opts.Budget
	return db.dirtyBytes > 4*max(db.flushLimit(), 32<<20) ||
		b != nil && b.Dirty() > b.limit && db.dirtyBytes > b.share()
}

// flushLimit is how much may be dirty before a commit writes the file.
func (db *DB) flushLimit() int64 {
	if db.opts.flushShare {
		return max(db.opts.FlushBytes, db.opts.Budget.share()/2)
	}
	return db.opts.FlushBytes
}

// cacheLimit bounds the clean rows kept in memory.
func (db *DB) cacheLimit() int64 {
	if b := db.opts.Budget; b != nil {
		return min(db.opts.CacheBytes, b.share())
	}
	return db.opts.CacheBytes
}
