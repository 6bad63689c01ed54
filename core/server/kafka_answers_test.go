package server_test

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// recordFrom turns the tests that compare answers with those of an Apache Kafka into their
// recorders. Choose one with -run; what Kafka it wants is told at each:
//
//	go test ./core/server -run GroupsAnswerAsKafka -record-from 127.0.0.1:19092
var recordFrom = flag.String("record-from", "",
	"address of an Apache Kafka whose answers become the golden file of the test that is run")

// answerer is who is asked: a broker of ours, or the Kafka that is recorded.
type answerer struct {
	addr string
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// newAnswerer starts a broker with a config, unless a Kafka is recorded.
func newAnswerer(t *testing.T, config map[string]string) answerer {
	t.Helper()
	if *recordFrom != "" {
		return answerer{*recordFrom, new(net.Dialer).DialContext}
	}
	return answererOf(coretest.Start(t, coretest.Options{Config: config}))
}

func answererOf(c *coretest.Cluster) answerer { return answerer{c.Addr(), c.Dialer()} }

func (a answerer) connect(t testing.TB) net.Conn {
	t.Helper()
	conn, err := a.dial(t.Context(), "tcp", a.addr)
	require.NoError(t, err)
	return conn
}

func (a answerer) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(slices.Concat(
		[]kgo.Opt{kgo.SeedBrokers(a.addr), kgo.Dialer(a.dial), kgo.ClientID("cli")}, opts)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// compareAnswers compares a test's text line by line with its golden file, or records it. onPurpose
// tells of a line that it may differ; nil for none.
func compareAnswers(t *testing.T, golden, text string, onPurpose func(got, want string) bool) {
	t.Helper()
	if *recordFrom != "" {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
		return
	}
	b, err := os.ReadFile(golden)
	require.NoError(t, err)
	want, got := strings.Split(string(b), "\n"), strings.Split(text, "\n")
	for i := range min(len(want), len(got)) {
		if onPurpose == nil || !onPurpose(got[i], want[i]) {
			assert.Equal(t, want[i], got[i], "line %d", i+1)
		}
	}
	require.Len(t, got, len(want))
}

// canonical sorts arrays and drops what is different by nature.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"Host", "Port", "UnknownTags", "Version", "ThrottleMillis"} {
			delete(v, key)
		}
		for key := range v {
			v[key] = canonical(v[key])
		}
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
		slices.SortFunc(v, func(a, b any) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return strings.Compare(string(x), string(y))
		})
	}
	return v
}
