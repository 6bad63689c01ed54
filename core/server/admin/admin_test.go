package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/server/admin"
	"github.com/millstream-io/millstream/core/vnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is a source of one number.
type answer struct{}

var answerFamily = &metrics.Family{Name: "millstream_test_total", Help: "A test.",
	Kind: metrics.Counter}

func (answer) Families() []*metrics.Family { return []*metrics.Family{answerFamily} }

func (answer) WriteMetrics(p *metrics.Page) { p.One(answerFamily, 42) }

func TestEndpointsTellHealthReadinessAndMetrics(t *testing.T) {
	ctx := context.Background()
	network := vnet.NewPipe()
	l, err := network.Listen(ctx, "host:80")
	require.NoError(t, err)
	var ready error = errors.New("still replaying the log")
	s := admin.New(admin.Options{
		Ready:   func() error { return ready },
		Sources: []metrics.Source{answer{}},
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return network.Dial(ctx, "host:80")
	}
	client := &http.Client{Transport: transport}
	get := func(path string) (int, string) {
		resp, err := client.Get("http://host" + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, body := get("/healthz")
	require.Equal(t, 200, code)
	require.Equal(t, "ok\n", body)
	code, body = get("/readyz")
	require.Equal(t, 503, code)
	require.Equal(t, "still replaying the log\n", body)
	ready = nil
	code, _ = get("/readyz")
	require.Equal(t, 200, code)
	code, body = get("/metrics")
	require.Equal(t, 200, code)
	require.Contains(t, body, "millstream_test_total 42")
	require.Contains(t, body, "go_goroutines")
	code, body = get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, 200, code)
	require.Contains(t, body, "goroutine profile")
	for _, path := range []string{"cmdline", "../vars", "nothing"} {
		code, _ = get("/debug/pprof/" + path)
		require.Equal(t, 404, code, "%s: arguments may hold secrets", path)
	}
	for _, seconds := range []string{"61", "1e9", "NaN"} {
		code, _ = get("/debug/pprof/profile?seconds=" + seconds)
		require.Equal(t, 400, code, seconds)
	}
	code, _ = get("/else")
	require.Equal(t, 404, code)

	require.NoError(t, s.Close(ctx))
	require.NoError(t, <-served)
}
