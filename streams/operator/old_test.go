package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

func TestOldTravelsWithValueAndTime(t *testing.T) {
	key := []byte("k")
	for _, value := range [][]byte{nil, {}, []byte("v")} {
		old := &Record{Key: key, Value: value, Timestamp: -5}
		require.Equal(t, old, ParseOld(AppendOld(nil, old), key))
	}
	require.Equal(t, []byte("\x01\x09v"), AppendOld(nil, &Record{Value: []byte("v"), Timestamp: -5}))
	require.Nil(t, ParseOld(nil, key))
	require.Nil(t, ParseOld([]byte{7, 0}, key))
	require.Empty(t, VisibleHeaders([]record.Header{{Key: HeaderOld}}), "steps do not see it")
}
