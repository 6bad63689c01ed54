package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Bulk gathers changelog records for a restore and writes them to the file in large sorted
// transactions, beside the tiers in memory: several times as fast as Apply.
type Bulk struct {
	db    *DB
	rows  []bulkRow
	bytes int64
}

type bulkRow struct{ key, value []byte }

// Bounds of what a Bulk gathers: bbolt does best with some 100k sorted rows in a transaction.
const (
	bulkRows  = 256 << 10
	bulkBytes = 48 << 20
)

// NewBulk returns a bulk for a DB that has a file and whose stores nobody has used yet; ok is false
// for others, which take Apply.
func (db *DB) NewBulk() (b *Bulk, ok bool) {
	if db.file == nil || len(db.stores)+len(db.windows)+len(db.pending)+len(db.dirty) > 0 {
		return nil, false
	}
	return &Bulk{db: db}, true
}

// Add takes a record in; key and value must stay unchanged until the next Write. full tells that it
// is time for that.
func (b *Bulk) Add(key, value []byte) (full bool) {
	b.rows = append(b.rows, bulkRow{key, value})
	b.bytes += int64(len(key) + len(value))
	return len(b.rows) >= bulkRows || b.bytes >= bulkBytes
}

// Write writes what was gathered, of each key the last, and meta in one transaction.
func (b *Bulk) Write(meta Meta) error {
	db := b.db
	if db.closed {
		return ErrClosed
	}
	byKey := func(x, y bulkRow) int { return bytes.Compare(x.key, y.key) }
	if !slices.IsSortedFunc(b.rows, byKey) {
		slices.SortStableFunc(b.rows, byKey)
	}
	db.file.endRead()
	err := db.file.update(func(tx *bolt.Tx) error {
		if err := b.put(tx); err != nil {
			return err
		}
		return writeMeta(tx, meta)
	})
	if err != nil {
		return fmt.Errorf("restore state of %s: %w", db.opts.Identity.Task, err)
	}
	db.file.release()
	clear(b.rows)
	b.rows, b.bytes = b.rows[:0], 0
	db.meta, db.metaDirty = Meta{meta.Next, bytes.Clone(meta.Commit)}, false
	return nil
}

// put writes the sorted rows, bucket by bucket.
func (b *Bulk) put(tx *bolt.Tx) error {
	var prefix []byte
	var seed uint32
	var bucket *bolt.Bucket
	sealed := sealer{make([]byte, 0, b.bytes+int64(len(b.rows)*(1+sumSize)))}
	for i, row := range b.rows {
		if i+1 < len(b.rows) && bytes.Equal(b.rows[i+1].key, row.key) {
			continue
		}
		if prefix == nil || !bytes.HasPrefix(row.key, prefix) {
			id, _, err := parseKey(row.key)
			if err != nil {
				return err
			}
			prefix, seed = id.appendPrefix(nil), id.seed()
			if bucket, err = makeBucket(tx, id); err != nil {
				return err
			}
			bucket.FillPercent = 0.9
		}
		key := sealed.key(row.key[len(prefix):])
		var err error
		if row.value == nil {
			err = bucket.Delete(key)
		} else {
			err = bucket.Put(key, sealed.seal(seed, key[1:], row.value))
		}
		if errors.Is(err, bolterrors.ErrKeyTooLarge) {
			err = ErrKeyTooLong
		}
		if err != nil {
			return fmt.Errorf("write row of %d-byte key: %w", len(key), err)
		}
	}
	return nil
}
