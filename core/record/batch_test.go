package record_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

const noLimit = 1 << 30

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

func TestRoundTrip(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Lz4})
	b.Append(record.Record{Timestamp: 5, Key: []byte("k"), Value: []byte("v")})
	batch, err := b.Build()
	require.NoError(t, err)
	require.NoError(t, batch.CheckCRC())
	rs, err := batch.Records(noLimit)
	require.NoError(t, err)
	require.Len(t, rs, 1)
	require.Equal(t, []byte("v"), rs[0].Value)
}
