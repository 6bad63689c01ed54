package state

// shrink evicts clean rows last used before generation gen.
func (db *DB) shrink(gen uint32) {
	for b := range db.buckets() {
		for _, r := range b.rows {
			if r.gen < gen && !r.pending && !r.dirty {
				b.evict(r)
				db.evicted++
			}
		}
	}
}

// buckets yields every bucket in memory, in no particular order.
func (db *DB) buckets() func(func(*bucket) bool) {
	return func(yield func(*bucket) bool) {
		for _, b := range db.stores {
			if !yield(b) {
				return
			}
		}
		for _, w := range db.windows {
			for _, b := range w.buckets {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// evict forgets a clean row.
func (b *bucket) evict(r *row) {
	if b.rows[r.key] != r {
		return
	}
	delete(b.rows, r.key)
	b.db.cacheBytes -= int64(len(r.key)+len(r.val)) + rowOverhead
	b.unindex()
}
