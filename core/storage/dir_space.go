package storage

import "fmt"

// askAfter bounds what is appended between two looks at the free space, in bytes: others write to
// the disk, too.
const askAfter = 16 << 20

// room implements logOwner.
func (d *Dir) room(n int) error {
	reserve := d.opts.Reserve
	if reserve <= 0 || d.spare.Add(-int64(n)) >= 0 {
		return nil
	}
	free, err := d.opts.FS.Free(d.opts.Path)
	if err != nil {
		return nil // the write tells
	}
	spare := int64(min(free, 1<<62)) - reserve - int64(n)
	if spare < 0 {
		d.spare.Store(0)
		return fmt.Errorf("%w: append of %d bytes with %d free, of which %d are kept", ErrNoSpace, n,
			free, reserve)
	}
	d.spare.Store(min(spare/2, askAfter))
	return nil
}
