package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// jumps are by how much the clock of the tests below is set.
var jumps = []time.Duration{24 * time.Hour, -24 * time.Hour}

// sequenced is a batch of one record of an idempotent producer.
func sequenced(t *testing.T, id int64, sequence int32, at time.Time) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true, ProducerID: id,
		BaseSequence: sequence})
	b.Append(record.Record{Timestamp: at.UnixMilli(), Value: fmt.Append(nil, sequence)})
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// putBatch produces a batch to t-0 and returns the answer.
func putBatch(t *testing.T, cl *kgo.Client, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	topic, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, part.Records = "t", batch
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	require.NoError(t, err)
	return resp.Topics[0].Partitions[0]
}

// F12: a producer that repeats its last batch after the clock was set is recognized, though the
// jump is as long as producers are remembered (producer.id.expiration.ms, a day).
func TestF12_ProducersAreRememberedOverJumps(t *testing.T) {
	for _, by := range jumps {
		t.Run(by.String(), func(t *testing.T) {
			c, clock := startWithClock(t)
			txnTopic(t, c, "t", 1)
			cl := txnClient(t, c, kgo.MaxVersions(byName()))
			for sequence := range int32(3) {
				got := putBatch(t, cl, sequenced(t, 7, sequence, clock.Now()))
				require.Equal(t, int64(sequence), got.BaseOffset)
			}
			last := sequenced(t, 7, 2, clock.Now())
			clock.jump(by)
			waitTicks(t, c) // retention looks as often
			got := putBatch(t, cl, last)
			require.Zero(t, got.ErrorCode)
			require.Equal(t, int64(2), got.BaseOffset, "the repeat was appended")
			got = putBatch(t, cl, sequenced(t, 7, 3, clock.Now()))
			require.Zero(t, got.ErrorCode)
			got = putBatch(t, cl, sequenced(t, 7, 9, clock.Now()))
			require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, got.ErrorCode)
		})
	}
}

// F12: a fetch that waits for records is answered when there are some, or after its time, and not
// by how the clock is set meanwhile.
func TestF12_WaitingFetchesAreNotHurriedOrHeldUp(t *testing.T) {
	for _, by := range jumps {
		t.Run(by.String(), func(t *testing.T) {
			c, clock := startWithClock(t)
			txnTopic(t, c, "t", 1)
			cl := txnClient(t, c, kgo.MaxVersions(byName()))
			fetch := func(wait int32) (took time.Duration, bytes int) {
				req := kmsg.NewPtrFetchRequest()
				req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = wait, 1, 1<<20, -1
				topic, part := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
				topic.Topic, part.PartitionMaxBytes = "t", 1<<20
				topic.Partitions = append(topic.Partitions, part)
				req.Topics = append(req.Topics, topic)
				began := time.Now()
				resp, err := req.RequestWith(t.Context(), cl)
				require.NoError(t, err)
				for _, topic := range resp.Topics {
					bytes += len(topic.Partitions[0].RecordBatches)
				}
				return time.Since(began), bytes
			}
			jumped := time.AfterFunc(100*time.Millisecond, func() { clock.jump(by) })
			took, bytes := fetch(500)
			require.False(t, jumped.Stop(), "the clock was not set meanwhile")
			require.Zero(t, bytes)
			require.GreaterOrEqual(t, took, 450*time.Millisecond)
			require.Less(t, took, time.Minute)
			time.AfterFunc(100*time.Millisecond, func() {
				clock.jump(-by)
				_ = txnClient(t, c).ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")})
			})
			took, bytes = fetch(300_000)
			require.Positive(t, bytes)
			require.Less(t, took, time.Minute)
		})
	}
}

// byName keeps a client at versions in which topics have names instead of ids.
func byName() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(0, 9)
	v.SetMaxKeyVersion(1, 11)
	return v
}

// F12: what group commit has acknowledged is there after a power cut, however the clock was set
// while it was written, and while the broker was down.
func TestF12_GroupCommitLivesThroughJumps(t *testing.T) {
	for _, by := range jumps {
		t.Run(by.String(), func(t *testing.T) {
			c, clock := startWithClock(t)
			txnTopic(t, c, "t", 1)
			for round := range 3 {
				cl := txnClient(t, c)
				for n := range 4 {
					r := &kgo.Record{Topic: "t", Value: fmt.Append(nil, round, n), Timestamp: clock.Now()}
					require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
					require.Equal(t, int64(round*4+n), r.Offset)
					if n == 1 {
						clock.jump(by)
					}
				}
				c.Crash()
				clock.jump(-by)
			}
			require.Len(t, readAll(t, c, "t", 0, 12, kgo.ReadUncommitted()), 12)
		})
	}
}

// F12: timestamps that clients set are judged by the clock as it stands: with it a day behind they
// are refused with the reason, which passes when it is right again; with it a day ahead they are
// taken as they are.
func TestF12_CreateTimeIsJudgedByTheClock(t *testing.T) {
	clock := new(wallClock)
	c := coretest.Start(t, coretest.Options{Change: func(o *core.Options) { o.Now = clock.Now }})
	txnTopic(t, c, "t", 1)
	cl := txnClient(t, c)
	put := func() (*kgo.Record, error) {
		r := &kgo.Record{Topic: "t", Value: []byte("v"), Timestamp: time.Now()}
		return r, cl.ProduceSync(t.Context(), r).FirstErr()
	}
	clock.jump(-24 * time.Hour)
	_, err := put()
	require.ErrorIs(t, err, kerr.InvalidTimestamp)
	clock.jump(24 * time.Hour)
	first, err := put()
	require.NoError(t, err)
	clock.jump(24 * time.Hour)
	second, err := put()
	require.NoError(t, err)
	require.Equal(t, first.Offset+1, second.Offset)
	require.WithinDuration(t, time.Now(), second.Timestamp, time.Minute)
	// The records are found by the times that they have.
	at, err := kadm.NewClient(cl).ListOffsetsAfterMilli(t.Context(), second.Timestamp.UnixMilli(), "t")
	require.NoError(t, err)
	found, _ := at.Lookup("t", 0)
	require.Equal(t, second.Timestamp.UnixMilli(), found.Timestamp)
}

// F12: a login lasts as long as was told (KIP-368), whatever the clock is set to.
func TestF12_LoginsOutliveJumps(t *testing.T) {
	clock, dials := new(wallClock), new(atomic.Int64)
	c := coretest.Start(t, coretest.Options{
		Config: map[string]string{
			"listeners":                 "SASL_PLAINTEXT://broker:9092",
			"sasl.enabled.mechanisms":   "PLAIN",
			"authorizer.class.name":     metadata.StandardAuthorizer,
			"super.users":               "User:admin",
			"connections.max.reauth.ms": "3600000",
			"listener.name.sasl_plaintext.plain.sasl.jaas.config": `org.apache.kafka.common.` +
				`security.plain.PlainLoginModule required user_admin="a";`,
		},
		Change: func(o *core.Options) { o.Now = clock.Now },
	})
	dialer := c.Dialer()
	cl := txnClient(t, c, kgo.RequestRetries(0), kgo.SASL(plain.Auth{User: "admin", Pass: "a"}.
		AsMechanism()), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return dialer(ctx, network, addr)
	}))
	for range 3 { // a client connects once by address and once by the broker's id
		require.NoError(t, cl.Ping(t.Context()))
	}
	before := dials.Load()
	for _, by := range append(jumps, jumps...) {
		clock.jump(by)
		err := cl.Ping(t.Context())
		require.NoError(t, err, "%v: %v", by, errors.Unwrap(err))
	}
	require.Equal(t, before, dials.Load(), "a connection was closed")
}

// F12: files of a deleted topic go after their delay, though the clock is set back by a day
// meanwhile: their space is wanted.
func TestF12_DeletedFilesGoThoughTheClockIsSet(t *testing.T) {
	clock, disk := new(wallClock), vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk,
		Change: func(o *core.Options) { o.Now = clock.Now }})
	delay := "300"
	admin := kadm.NewClient(txnClient(t, c))
	configs := map[string]*string{"file.delete.delay.ms": &delay}
	_, err := admin.CreateTopic(t.Context(), 1, 1, configs, "t")
	require.NoError(t, err)
	left := func() (names []string) {
		entries, err := disk.ReadDir("/millstream/data")
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "t-0") || strings.HasSuffix(e.Name(), "-delete") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	require.Equal(t, []string{"t-0"}, left())
	_, err = admin.DeleteTopic(t.Context(), "t")
	require.NoError(t, err)
	require.NotEmpty(t, left(), "the clock is set too late")
	clock.jump(-24 * time.Hour)
	require.Eventually(t, func() bool { return len(left()) == 0 }, time.Minute, time.Millisecond)
}
