package query

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// Root is where Handler has to be mounted.
const Root = "/v1/pipelines/"

// exportStall is how long a client may take none of an export.
const exportStall = 30 * time.Second

// HandlerOptions are what a Handler needs.
type HandlerOptions struct {
	Source Source
	// Open answers clients on other machines, too.
	Open bool
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Handler answers questions for state over HTTP.
func Handler(opts HandlerOptions) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root+"{pipeline}/snapshot", h.guard(h.snapshot))
	mux.HandleFunc("GET "+Root+"{pipeline}/state", h.guard(h.list))
	mux.HandleFunc("GET "+Root+"{pipeline}/state/{node}", h.guard(h.ask))
	mux.HandleFunc("GET "+Root+"{pipeline}/state/{node}/export", h.guard(h.export))
	return mux
}

type handler struct{ opts HandlerOptions }

// guard keeps other machines and pages of browsers out, and writes errors.
func (h *handler) guard(fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if !h.opts.Open && !thisMachine(r.RemoteAddr) || site != "" && site != "none" {
			h.fail(w, refuse(http.StatusForbidden, CodeForbidden, "state is for clients on this machine").
				do("ask there, or start the node with --insecure"))
			return
		}
		if err := fn(w, r); err != nil {
			h.fail(w, err)
		}
	}
}

func thisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // the in-memory network
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || ip.Unmap().IsLoopback()
}

// fail answers with an error.
func (h *handler) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, errTold) {
		return
	}
	known, ok := errors.AsType[*Error](err)
	if !ok {
		h.opts.Logger.Warn("state not answered", "error", err)
		known = refuse(http.StatusInternalServerError, CodeFailed, "%v", err)
	}
	if known.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	h.write(w, known.status, map[string]*Error{"error": known})
}

func (h *handler) write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		h.opts.Logger.Debug("answer not written", "error", err)
	}
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) error {
	listing, err := List(h.opts.Source, r.PathValue("pipeline"))
	if err != nil {
		return err
	}
	h.write(w, http.StatusOK, listing)
	return nil
}

func (h *handler) ask(w http.ResponseWriter, r *http.Request) error {
	req, err := parse(r)
	if err != nil {
		return err
	}
	answer, err := Ask(r.Context(), h.opts.Source, req)
	if err != nil {
		return err
	}
	h.write(w, http.StatusOK, answer)
	return nil
}

func (h *handler) export(w http.ResponseWriter, r *http.Request) error {
	req, err := parse(r)
	if err != nil {
		return err
	}
	if req.Key != nil || req.Limit != 0 {
		return badRequest("an export has all rows: leave key and limit out")
	}
	out := bufio.NewWriterSize(&patient{w: w, control: http.NewResponseController(w)}, 64<<10)
	err = Export(r.Context(), h.opts.Source, req, func() {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusOK)
	}, out)
	return errors.Join(err, out.Flush())
}

// patient lets a response take as long as the client goes on taking it.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	// Where the connection has no deadlines, there is none to move.
	_ = p.control.SetWriteDeadline(time.Now().Add(exportStall))
	return p.w.Write(b)
}

// parse reads the parameters of a request.
func parse(r *http.Request) (Request, error) {
	q := r.URL.Query()
	req := Request{Pipeline: r.PathValue("pipeline"), Node: r.PathValue("node"),
		From: math.MinInt64, To: math.MaxInt64, MaxLag: -1}
	for name := range q {
		switch name {
		case "key", "from", "to", "partition", "limit", "stale", "fresh", "max_lag":
		default:
			return req, badRequest("there is no parameter %q", name).
				do("key, from, to, partition, limit, stale, fresh and max_lag are there")
		}
	}
	if q.Has("key") {
		key := q.Get("key")
		req.Key = &key
	}
	p := parser{q: q}
	p.time("from", &req.From)
	p.time("to", &req.To)
	limit := int64(0)
	p.number("limit", q.Get("limit"), &limit)
	req.Limit = int(min(limit, maxLimit))
	p.number("max_lag", q.Get("max_lag"), &req.MaxLag)
	p.flag("stale", &req.Stale)
	p.flag("fresh", &req.Fresh)
	for _, text := range q["partition"] {
		var n int64
		p.number("partition", text, &n)
		req.Partitions = append(req.Partitions, int32(min(n, math.MaxInt32)))
	}
	if p.err == nil && req.From >= req.To {
		p.err = badRequest("the time from %d to %d holds nothing", req.From, req.To)
	}
	if p.err != nil {
		return req, p.err
	}
	return req, nil
}

type parser struct {
	q   url.Values
	err *Error // the first one
}

func (p *parser) bad(name, text, want string) {
	if p.err == nil {
		p.err = badRequest("%s=%s is not %s", name, text, want)
	}
}

func (p *parser) time(name string, to *int64) {
	text := p.q.Get(name)
	if text == "" {
		return
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		*to = ms
		return
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.bad(name, text, "a time like 2026-02-14T10:00:00Z, nor a number of ms since 1970")
		return
	}
	*to = at.UnixMilli()
}

func (p *parser) number(name, text string, to *int64) {
	if text == "" {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.bad(name, text, "a number from 0 on")
		return
	}
	*to = n
}

func (p *parser) flag(name string, to *bool) {
	text := p.q.Get(name)
	if text == "" {
		*to = p.q.Has(name)
		return
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		p.bad(name, text, "true or false")
		return
	}
	*to = b
}
