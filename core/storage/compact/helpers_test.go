package compact

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

var appendAsClient = storage.AppendOptions{Origin: storage.FromClient}

// producerBatch is one record of an idempotent producer.
func producerBatch(t testing.TB, id int64, epoch int16, sequence int32) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true, ProducerID: id,
		ProducerEpoch: epoch, BaseSequence: sequence})
	b.Append(record.Record{Timestamp: t0, Key: []byte("p"), Value: []byte("x")})
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}
