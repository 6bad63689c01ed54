package aggregate

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
)

// quantileBits is how many bits of a number, after the first, tell its bucket: a bucket is 1/128
// of its numbers wide, so what is reported is at most 0.8 % nearer to 0 than the exact quantile.
// Numbers below 2^-1022 (subnormal) have fewer bits, and are reported as less or as 0.
const quantileBits = 7

// quantiles counts numbers in buckets that grow with the numbers, as DDSketch does. The bucket of
// a number is cut out of its bits, so that no logarithm is rounded differently elsewhere. What it
// keeps depends on the numbers alone, not on their order; numbers can be taken back.
type quantiles struct {
	total   uint64
	buckets []bucketCount // ascending by index, none with 0
}

// bucketCount is one bucket: 0 holds zero, positive and negative ones numbers of that sign.
type bucketCount struct {
	index int64
	n     uint64
}

func (q *quantiles) reset() { q.total, q.buckets = 0, q.buckets[:0] }

func bucketOf(x float64) int64 {
	if x == 0 {
		return 0
	}
	i := int64(math.Float64bits(math.Abs(x))>>(52-quantileBits)) + 1
	if x < 0 {
		return -i
	}
	return i
}

// bucketValue returns the number of a bucket that is nearest to 0.
func bucketValue(index int64) float64 {
	switch {
	case index == 0:
		return 0
	case index < 0:
		return -bucketValue(-index)
	}
	return math.Float64frombits(uint64(index-1) << (52 - quantileBits))
}

func (q *quantiles) find(index int64) (int, bool) {
	return slices.BinarySearchFunc(q.buckets, index, func(b bucketCount, index int64) int {
		return cmp.Compare(b.index, index)
	})
}

func (q *quantiles) add(index int64, n uint64) {
	q.total += n
	i, found := q.find(index)
	if found {
		q.buckets[i].n += n
		return
	}
	q.buckets = slices.Insert(q.buckets, i, bucketCount{index, n})
}

func (q *quantiles) subtract(index int64) error {
	i, found := q.find(index)
	if !found {
		return ErrBelowZero
	}
	q.total--
	if q.buckets[i].n--; q.buckets[i].n == 0 {
		q.buckets = slices.Delete(q.buckets, i, i+1)
	}
	return nil
}

func (q *quantiles) merge(o *quantiles) {
	for _, b := range o.buckets {
		q.add(b.index, b.n)
	}
}

// at returns the number that perMille of 1000 numbers do not exceed; total > 0.
func (q *quantiles) at(perMille uint64) Value {
	rank := max(1, q.total/1000*perMille+(q.total%1000*perMille+999)/1000)
	seen := uint64(0)
	for _, b := range q.buckets {
		if seen += b.n; seen >= rank {
			x := bucketValue(b.index)
			if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
				return IntValue(int64(x))
			}
			return FloatValue(x)
		}
	}
	return Value{}
}

// append encodes the sketch: uvarint number of buckets, each as varint distance of its index from
// the last one and uvarint count.
func (q *quantiles) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(q.buckets)))
	last := int64(0)
	for _, b := range q.buckets {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, b.index-last), b.n)
		last = b.index
	}
	return dst
}

func (q *quantiles) read(r *fields.Reader) {
	q.reset()
	last := int64(0)
	for range r.Count(2) {
		last += r.Varint()
		n := r.Uvarint()
		q.buckets = append(q.buckets, bucketCount{last, n})
		q.total += n
	}
}
