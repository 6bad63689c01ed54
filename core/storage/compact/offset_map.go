package compact

import (
	"crypto/sha256"
	"encoding/binary"
)

// slotBytes is the memory of one key in an OffsetMap.
const slotBytes = 24

// OffsetMap remembers the last offset of each key, in memory that is bounded beforehand: keys are
// kept as 128 bits of their SHA-256. (Kafka takes MD5, for which anybody can make two keys with one
// hash, and with them have one lose its value.)
//
// Invariant: count <= limit < len(slots), so that every probe ends.
type OffsetMap struct {
	slots []slot
	count int // keys
	limit int // most keys
	// latest is the last offset that the map speaks for, -1 at first: of records up to it, it knows
	// the last one of each key.
	latest int64
}

// slot is a key's hash and its last offset plus 1; 0 = free.
type slot struct {
	high, low uint64
	next      uint64
}

// NewOffsetMap returns a map for as many keys as fill loadFactor of memory bytes, but no more slots
// than wanted keys need: an upper bound of what will come.
func NewOffsetMap(memory int64, loadFactor float64, wanted int64) *OffsetMap {
	slots := max(memory/slotBytes, 2)
	if need := int64(float64(wanted)/loadFactor) + 2; need > 0 && need < slots {
		slots = need
	}
	limit := min(int(float64(slots)*loadFactor), int(slots)-1)
	return &OffsetMap{slots: make([]slot, slots), limit: max(limit, 1), latest: -1}
}

// Put remembers that key has a record at offset, which must not be before an earlier one of it. It
// reports false, and does nothing, if the key is new and the map is full.
func (m *OffsetMap) Put(key []byte, offset int64) bool {
	s := m.find(key)
	if s.next == 0 {
		if m.count >= m.limit {
			return false
		}
		m.count++
		*s = hashOf(key)
	}
	s.next = uint64(offset) + 1
	return true
}

// Get returns the last offset of key, -1 if it is not in the map.
func (m *OffsetMap) Get(key []byte) int64 { return int64(m.find(key).next) - 1 }

// Len returns the number of keys.
func (m *OffsetMap) Len() int { return m.count }

// Latest returns the last offset that the map speaks for, -1 if there is none.
func (m *OffsetMap) Latest() int64 { return m.latest }

// Cover says that the map knows all records up to offset.
func (m *OffsetMap) Cover(offset int64) { m.latest = max(m.latest, offset) }

// find returns the key's slot, or the free one where it belongs.
func (m *OffsetMap) find(key []byte) *slot {
	h := hashOf(key)
	n := uint64(len(m.slots))
	for i := h.high % n; ; i = (i + 1) % n {
		s := &m.slots[i]
		if s.next == 0 || s.high == h.high && s.low == h.low {
			return s
		}
	}
}

func hashOf(key []byte) slot {
	sum := sha256.Sum256(key)
	return slot{high: binary.BigEndian.Uint64(sum[:8]), low: binary.BigEndian.Uint64(sum[8:16])}
}
