package admin

import (
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
