package pluginpb

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// Buffers come in powers of two between these two sizes; others are left to the garbage collector.
const (
	minBuffer = 4 << 10
	maxBuffer = 8 << 20
)

var pools [12]sync.Pool // of *[]byte; class i holds capacities of at least minBuffer<<i

// GetBuffer returns a slice of length n with unspecified content.
func GetBuffer(n int) []byte {
	if n > maxBuffer {
		return make([]byte, n)
	}
	class := 0
	if n > minBuffer {
		class = bits.Len(uint(n-1)) - bits.Len(uint(minBuffer-1))
	}
	if p, ok := pools[class].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, minBuffer<<class)
}

// PutBuffer recycles b, which must not be used any more. Any slice may be given.
func PutBuffer(b []byte) {
	if cap(b) < minBuffer || cap(b) > maxBuffer {
		return
	}
	b = b[:0]
	pools[bits.Len(uint(cap(b)))-bits.Len(uint(minBuffer))].Put(&b)
}

// framePool lets gRPC give a frame back once it is written.
type framePool struct{}

var _ mem.BufferPool = framePool{}

func (framePool) Get(n int) *[]byte {
	b := GetBuffer(n)
	return &b
}

func (framePool) Put(b *[]byte) { PutBuffer(*b) }
