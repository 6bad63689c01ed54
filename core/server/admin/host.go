package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forThisHost refuses requests that came to an address of this machine only under a foreign name.
// The pages of a browser can have any name of theirs resolve to 127.0.0.1, and are then of the same
// site to the browser; the name they were asked for under still comes with the request (RFC 9112,
// section 3.2). Elsewhere names are what the network makes them.
func forThisHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onLoopback(r) && !namesThisMachine(r.Host) {
			http.Error(w, "this address is for localhost, not for "+shortHost(r.Host),
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onLoopback tells whether a request came to a loopback address. Requests in memory did not.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}

// namesThisMachine tells whether a Host header is an address, or a name of this machine that no
// name server is asked for (RFC 6761, section 6.3). Browsers send one, probes with HTTP/1.0 need
// not.
func namesThisMachine(host string) bool {
	if host == "" {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// shortHost is a header that fits into an answer.
func shortHost(host string) string {
	const most = 100
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, host[:min(len(host), most)])
}
