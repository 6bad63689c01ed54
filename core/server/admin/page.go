package admin

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/millstream-io/millstream/core/metrics"
)

// page serves /metrics: what the broker counts, written as it is read, and then what the registry
// of the library has.
type page struct {
	sources []metrics.Source
	rest    prometheus.Gatherer
	log     *slog.Logger
}

// ServeHTTP implements http.Handler.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	to := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
		defer func() { _ = packed.Close() }()               // the client has gone then
		to = packed
	}
	if err := p.write(to); err != nil {
		p.log.Debug("metrics page not written", "error", err)
	}
}

func (p *page) write(w io.Writer) error {
	text := metrics.NewPage(w)
	for _, s := range p.sources {
		s.WriteMetrics(text)
	}
	if err := text.Flush(); err != nil {
		return err
	}
	families, err := p.rest.Gather()
	if err != nil {
		return err
	}
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}
