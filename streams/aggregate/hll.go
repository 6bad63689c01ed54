package aggregate

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/millstream-io/millstream/streams/internal/fields"
)

const (
	// hllBits is the precision: 2^14 registers, a standard error of 0.81 %.
	hllBits      = 14
	hllRegisters = 1 << hllBits
	hllRanks     = 64 - hllBits // the largest rank is one more
	// hllSparse is up to how many registers in use a list of them is kept.
	hllSparse = 3000
)

// hll estimates how many different values were added (HyperLogLog with Ertl's estimator). What it
// keeps depends on the set of values alone, not on their order or on how sketches were merged.
type hll struct {
	// sparse are the registers in use, index<<8 | rank, ascending; dense all of them, once there
	// are more than hllSparse.
	sparse []uint32
	dense  []byte
}

func (h *hll) reset() { h.sparse, h.dense = h.sparse[:0], h.dense[:0] }

// add takes the identity of a value.
func (h *hll) add(identity []byte) {
	x := xxh3.Hash(identity)
	h.set(uint32(x>>hllRanks), byte(bits.LeadingZeros64(x<<hllBits|1<<(hllBits-1))+1))
}

// set raises a register to rank.
func (h *hll) set(index uint32, rank byte) {
	if len(h.dense) > 0 {
		h.dense[index] = max(h.dense[index], rank)
		return
	}
	i, found := slices.BinarySearchFunc(h.sparse, index, func(r, index uint32) int {
		return int(r>>8) - int(index)
	})
	switch {
	case found:
		h.sparse[i] = max(h.sparse[i], index<<8|uint32(rank))
		return
	case len(h.sparse) < hllSparse:
		h.sparse = slices.Insert(h.sparse, i, index<<8|uint32(rank))
		return
	}
	h.dense = slices.Grow(h.dense[:0], hllRegisters)[:hllRegisters]
	clear(h.dense)
	for _, r := range h.sparse {
		h.dense[r>>8] = byte(r)
	}
	h.sparse = h.sparse[:0]
	h.dense[index] = max(h.dense[index], rank)
}

func (h *hll) merge(o *hll) {
	for _, r := range o.sparse {
		h.set(r>>8, byte(r))
	}
	for i, rank := range o.dense {
		if rank > 0 {
			h.set(uint32(i), rank)
		}
	}
}

// estimate returns the number of different values.
func (h *hll) estimate() int64 {
	var count [hllRanks + 2]int // registers by rank
	for _, r := range h.sparse {
		count[byte(r)]++
	}
	count[0] = hllRegisters - len(h.sparse)
	if len(h.dense) > 0 {
		count[0] = 0
		for _, rank := range h.dense {
			count[min(int(rank), hllRanks+1)]++
		}
	}
	const m = float64(hllRegisters)
	z := m * hllTau(1-float64(count[hllRanks+1])/m)
	for k := hllRanks; k >= 1; k-- {
		z = 0.5 * (z + float64(count[k]))
	}
	z += m * hllSigma(float64(count[0])/m)
	return int64(math.Round(m * m / (2 * math.Ln2 * z)))
}

func hllSigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := -1.0; before != z; {
		x *= x
		before, z = z, z+x*y
		y += y
	}
	return z
}

func hllTau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := -1.0; before != z; {
		x = math.Sqrt(x)
		y *= 0.5
		before, z = z, z-(1-x)*(1-x)*y
	}
	return z / 3
}

// append encodes the sketch: uvarint number of registers, each as uvarint distance of its index
// from the last one and rank; or, for dense ones, 2^14 and a rank each.
func (h *hll) append(dst []byte) []byte {
	if len(h.dense) > 0 {
		return append(binary.AppendUvarint(dst, hllRegisters), h.dense...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.sparse)))
	last := uint32(0)
	for _, r := range h.sparse {
		dst = append(binary.AppendUvarint(dst, uint64(r>>8-last)), byte(r))
		last = r >> 8
	}
	return dst
}

func (h *hll) read(r *fields.Reader) {
	h.reset()
	n := r.Uvarint()
	if n == hllRegisters {
		h.dense = append(h.dense, r.Take(n)...)
		return
	}
	if n > hllSparse {
		r.Fail()
		return
	}
	last := uint64(0)
	for range n {
		last += r.Uvarint()
		rank := r.Byte()
		if last >= hllRegisters {
			r.Fail()
			return
		}
		h.sparse = append(h.sparse, uint32(last)<<8|uint32(rank))
	}
}
