package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// TestADamagedBatchIsNotRead: a bit that flipped on the way, or at a broker that does not look, is
// an error, and not a record with another value.
func TestADamagedBatchIsNotRead(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 5})
	b.Append(record.Record{Key: []byte("k"), Value: []byte("value")})
	batch, err := b.Build()
	require.NoError(t, err)
	var it record.Iterator
	decode := func() (Fetched, error) {
		a := &answer{of: &reading{}, batches: batch, from: 5}
		return a.decode(&it, &runMemory{})
	}
	run, err := decode()
	require.NoError(t, err)
	require.Equal(t, "value", string(run.Records[0].Value))
	batch[len(batch)-3] ^= 1
	run, err = decode()
	require.ErrorContains(t, err, "read batch")
	require.Empty(t, run.Records)
}
