package admin

import (
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
)

// maxProfileSeconds bounds how long a profile or trace is taken.
const maxProfileSeconds = 60

// addProfiles serves Go's profiles, without "cmdline": arguments may hold secrets.
func addProfiles(mux *http.ServeMux) {
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/{$}": pprof.Index, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle("GET "+path, onThisMachine(handler))
	}
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		mux.Handle("GET /debug/pprof/"+name, onThisMachine(pprof.Handler(name)))
	}
}

// onThisMachine refuses clients of other machines, whatever the listener is open to: a profile
// costs time and tells what the broker does. Pages of browsers are refused too.
func onThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case !isLoopback(r.RemoteAddr), site != "" && site != "none" && site != "same-origin":
			http.Error(w, "profiles are for clients on this machine", http.StatusForbidden)
		case tooLong(r.URL.Query().Get("seconds")):
			http.Error(w, "a profile takes at most 60 seconds", http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func tooLong(seconds string) bool {
	n, err := strconv.ParseFloat(seconds, 64)
	return err == nil && !(n <= maxProfileSeconds)
}

// isLoopback tells whether an address is of this machine. Addresses that are no IP are those of
// the in-memory network.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || ip.Unmap().IsLoopback()
}
