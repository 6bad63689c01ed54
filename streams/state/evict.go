package state

// flushed notes that the dirty rows are in the file, if there is one.
func (b *bucket) flushed() {
	for _, n := range b.dirty {
		r := b.row(n)
		r.dirty = false
		if b.db.file != nil && !r.absent {
			b.onDisk = true
		}
		if r.absent && !r.pending && !b.onDisk {
			b.evict(n)
		}
	}
	b.dirty, b.waits = b.dirty[:0], false
}

// shrink evicts clean rows last used before generation gen.
func (db *DB) shrink(gen uint32) {
	for b := range db.buckets() {
		b.table.each(func(n uint32, r *row) {
			if r.gen < gen && !r.pending && !r.dirty {
				b.evict(n)
				db.evicted++
			}
		})
		b.trim()
	}
}

// trim gives back the memory of rows that were evicted.
func (b *bucket) trim() {
	switch {
	case b.len() == 0:
		b.table = table{}
	case int(b.used) > trimAbove && 4*b.len() < int(b.used) && len(b.pending)+len(b.dirty) == 0:
		old := b.table
		b.table = table{}
		old.each(func(_ uint32, r *row) {
			n := b.add(old.bytes(r.key))
			to := b.row(n)
			key := to.key
			*to = *r
			to.key, to.val, to.next = key, held{}, held{}
			b.set(&to.val, old.bytes(r.val))
		})
		b.unindex()
	default:
		b.tidy()
	}
}

// trimAbove is the number of rows above which those that are left are put together anew.
const trimAbove = 4096

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
func (b *bucket) evict(n uint32) {
	r := b.table.row(n)
	b.db.cacheBytes -= r.key.len() + r.val.len() + rowOverhead
	b.table.remove(n)
	b.unindex()
}
