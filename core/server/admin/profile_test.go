package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestS12_ProfilesAreForThisMachine: whatever address the listener is bound to, other machines and
// the pages of browsers get no profiles; metrics and health they do.
func TestS12_ProfilesAreForThisMachine(t *testing.T) {
	s := New(Options{})
	for _, v := range []struct {
		from, site string
		code       int
	}{
		{"127.0.0.1:5000", "", 200}, {"[::1]:5000", "none", 200}, {"[::ffff:127.0.0.1]:5000", "", 200},
		{"10.0.0.7:5000", "", 403}, {"[2001:db8::1]:5000", "", 403},
		{"127.0.0.1:5000", "cross-site", 403}, {"127.0.0.1:5000", "same-site", 403},
	} {
		for _, path := range []string{"", "heap", "goroutine"} {
			r := httptest.NewRequest(http.MethodGet, "/debug/pprof/"+path, nil)
			r.RemoteAddr = v.from
			if v.site != "" {
				r.Header.Set("Sec-Fetch-Site", v.site)
			}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			require.Equal(t, v.code, w.Code, "%s from %s", path, v.from)
		}
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr = v.from
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
	}
}

// TestS9_ForeignNamesGetNothing: what comes to the loopback under a name that is not this machine's
// is a page of a browser whose name was made to point here. It is the same site to the browser, so
// that only the name tells. Other addresses, and connections in memory, may have any name.
func TestS9_ForeignNamesGetNothing(t *testing.T) {
	s := New(Options{})
	for _, v := range []struct {
		to, host string
		code     int
	}{
		{"127.0.0.1", "localhost:9644", 200}, {"127.0.0.1", "127.0.0.1:9644", 200},
		{"127.0.0.1", "LOCALHOST", 200}, {"127.0.0.1", "localhost.", 200},
		{"127.0.0.1", "node.localhost:1", 200}, {"::1", "[::1]:9644", 200}, {"::1", "[::1]", 200},
		{"127.0.0.1", "192.0.2.1:9644", 200}, // an address cannot be made to point elsewhere
		{"127.0.0.1", "evil.example:9644", 421}, {"127.0.0.1", "evil.example", 421},
		{"127.0.0.1", "localhost.evil.example", 421}, {"127.0.0.1", "127.0.0.1.evil.example:80", 421},
		{"::1", "evil.example", 421}, {"127.0.0.1", "notlocalhost", 421}, {"127.0.0.1", "", 200},
		{"10.0.0.7", "broker.example:9644", 200}, {"", "anything", 200},
	} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/heap", "/else"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host, r.RemoteAddr = v.host, "127.0.0.1:5000"
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			if v.to != "" {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
					net.Addr(&net.TCPAddr{IP: net.ParseIP(v.to), Port: 9644})))
			}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			want := v.code
			if want == 200 && path == "/else" {
				want = 404
			}
			require.Equal(t, want, w.Code, "%s of %q at %s", path, v.host, v.to)
		}
	}
}
