package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// bbolt has no checksums and trusts its pages: it panics over one that is not what it should be,
// and the kernel faults where the file is shorter than it says. Here each of these is an error,
// which stays: nothing that was read from such a file may be committed.

// guard runs fn, which uses bbolt, and turns its panics and faults into ErrDamaged.
func (f *file) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = f.damaged(fmt.Sprint(p))
		}
	}()
	if err := f.sick(); err != nil {
		return err
	}
	return fn()
}

// damaged notes and returns what is wrong with the file; the first that was found counts.
func (f *file) damaged(what string) error {
	err := fmt.Errorf("read state file %s: %w: %s", f.path, ErrDamaged, what)
	f.damage.CompareAndSwap(nil, &err)
	return f.sick()
}

// sick returns the damage that was found.
func (f *file) sick() error {
	if err := f.damage.Load(); err != nil {
		return *err
	}
	return nil
}

// sick is that of the file.
func (db *DB) sick() error {
	if db.file == nil {
		return nil
	}
	return db.file.sick()
}

// sumSize is what follows the value of a row in the file: a CRC-32C of its changelog key and value.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seed is the checksum of what the changelog keys of a bucket begin with.
func (id bucketID) seed() uint32 { return crc32.Checksum(id.appendPrefix(nil), castagnoli) }

// rowSum is the checksum of a row; key is without the bucket.
func rowSum(seed uint32, key, value []byte) uint32 {
	return crc32.Update(crc32.Update(seed, castagnoli, key), castagnoli, value)
}

// unseal returns the value of a row as it lies in the file, if its checksum is right.
func (f *file) unseal(seed uint32, key, sealed []byte) ([]byte, error) {
	n := len(sealed) - sumSize
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != rowSum(seed, key, sealed[:n]) {
		return nil, f.damaged(fmt.Sprintf("the row of key %.64q has a wrong checksum", key))
	}
	return sealed[:n:n], nil
}

// sealer puts checksums behind values. What it returns stays as it is: bbolt keeps it until the
// commit.
type sealer struct{ buf []byte }

// sealChunk is how much a sealer allocates at once.
const sealChunk = 256 << 10

// key returns a key as it is in the file.
func (s *sealer) key(key []byte) []byte {
	at := len(s.buf)
	s.buf = appendFileKey(s.buf, key)
	return s.buf[at:len(s.buf):len(s.buf)]
}

func (s *sealer) seal(seed uint32, key, value []byte) []byte {
	need := len(value) + sumSize
	if cap(s.buf)-len(s.buf) < need {
		s.buf = make([]byte, 0, max(sealChunk, need))
	}
	at := len(s.buf)
	s.buf = append(s.buf, value...)
	s.buf = binary.BigEndian.AppendUint32(s.buf, rowSum(seed, key, value))
	return s.buf[at:len(s.buf):len(s.buf)]
}

// metaSum is the checksum of all other fields of the meta bucket.
func metaSum(b *bolt.Bucket) []byte {
	sum := uint32(0)
	_ = b.ForEach(func(k, v []byte) error {
		if bytes.Equal(k, keySum) {
			return nil
		}
		for _, part := range [][]byte{k, v} {
			sum = crc32.Update(sum, castagnoli, binary.AppendUvarint(nil, uint64(len(part))))
			sum = crc32.Update(sum, castagnoli, part)
		}
		return nil
	})
	return binary.BigEndian.AppendUint32(nil, sum)
}

// sealMeta puts the checksum to the meta bucket.
func sealMeta(b *bolt.Bucket) error { return b.Put(keySum, metaSum(b)) }

// checkMeta refuses a meta bucket whose checksum is wrong, and a file that is shorter than its
// pages.
func (f *file) checkMeta(tx *bolt.Tx, b *bolt.Bucket) error {
	if !bytes.Equal(b.Get(keySum), metaSum(b)) {
		return f.damaged("what it says of itself has a wrong checksum")
	}
	return f.checkLength(tx)
}

// reopen opens a file again that turned out not to be usable, as an empty one.
func (f *file) reopen(opts Options, why error) error {
	f.endRead()
	opts.Logger.Warn("state file cannot be used; restoring from changelog", "path", opts.Path,
		"kept as", opts.Path+asideSuffix, "error", why)
	var errs []error
	if f.db != nil {
		errs = append(errs, f.db.Close())
		f.db = nil
	}
	if err := errors.Join(append(errs, setAside(opts.Path))...); err != nil {
		return err
	}
	f.damage.Store(nil)
	if err := f.openBolt(); err != nil {
		return fmt.Errorf("open state file %s: %w", opts.Path, err)
	}
	return f.identify(opts.Identity)
}
