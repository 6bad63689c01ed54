package txn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadKey: what is read as a key is written back to the same bytes.
func FuzzReadKey(f *testing.F) {
	f.Add(AppendKey(nil, "txn1"))
	f.Add([]byte{0, 0, 0xff, 0xff})
	f.Add([]byte{0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := ReadKey(b)
		if err != nil {
			return
		}
		require.Equal(t, b, AppendKey(nil, id))
	})
}
