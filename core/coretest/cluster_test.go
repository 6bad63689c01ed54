package coretest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/coretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// produce writes the values from to to, exclusive, and waits for them.
func produce(ctx context.Context, t testing.TB, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "v%d", i)})
	}
	require.NoError(t, cl.ProduceSync(ctx, records...).FirstErr())
}

// consume reads n records of a topic from its start.
func consume(ctx context.Context, t testing.TB, c *coretest.Cluster, topic string, n int,
) []*kgo.Record {
	t.Helper()
	cl := c.Client(kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []*kgo.Record
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		got = append(got, fetches.Records()...)
	}
	require.Len(t, got, n)
	return got
}

func TestProduceAndConsume(t *testing.T) {
	for _, os := range []bool{false, true} {
		t.Run(fmt.Sprintf("os=%v", os), func(t *testing.T) {
			c := coretest.Start(t, coretest.Options{OS: os})
			ctx := timeout(t)
			cl := c.Client()
			_, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "t")
			require.NoError(t, err)
			produce(ctx, t, cl, "t", 0, 1000)
			for i, r := range consume(ctx, t, c, "t", 1000) {
				require.Equal(t, fmt.Sprintf("v%d", i), string(r.Value))
				require.Equal(t, int64(i), r.Offset)
			}
		})
	}
}

// TestInABubble: the whole broker runs under a test's clock. Ten minutes without a request end a
// connection, and no time passes meanwhile.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coretest.Start(t, coretest.Options{})
		start := time.Now()
		conn, err := c.Dialer()(context.Background(), "tcp", c.Addr())
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.GreaterOrEqual(t, time.Since(start), 9*time.Minute)
		require.NoError(t, conn.Close())
		c.Stop()
	})
}

func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	ctx := timeout(t)
	_, err := kadm.NewClient(c.Client()).CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	for round := range 3 {
		produce(ctx, t, c.Client(), "t", 100*round, 100*round+100)
		c.Crash()
		for i, r := range consume(ctx, t, c, "t", 100*round+100) {
			require.Equal(t, fmt.Sprintf("v%d", i), string(r.Value))
		}
	}
	require.Contains(t, c.Log(), "broker is ready")
}
