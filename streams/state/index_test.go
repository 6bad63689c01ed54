package state

import (
	"fmt"
	"testing"
)

// BenchmarkScanInTurns puts a row and scans a short range in turns, with keys in no order: what a
// row costs must not grow with the rows there are.
func BenchmarkScanInTurns(b *testing.B) {
	for _, rows := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			db, err := Open(Options{})
			if err != nil {
				b.Fatal(err)
			}
			s := db.Store("s")
			key := func(i int) []byte { return fmt.Appendf(nil, "%08x", uint32(i)*2654435761) }
			put := func(i int) {
				if err := s.Put(key(i), nil); err != nil {
					b.Fatal(err)
				}
				n := 0
				_ = s.Scan(key(i), nil, func(_, _ []byte) error {
					if n++; n == 3 {
						return ErrStop
					}
					return nil
				})
			}
			for i := range rows {
				put(i)
			}
			for i := 0; b.Loop(); i++ {
				put(rows + i)
			}
		})
	}
}
