package query

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/millstream-io/millstream/streams/task"
)

// Exporter is a Source that can also give all that a pipeline has stored, as task.Export writes it.
type Exporter interface {
	// ExportState writes it to w, or fails with ErrUnknownPipeline.
	ExportState(ctx context.Context, pipeline string, w io.Writer) error
}

// snapshot answers with the state of a pipeline, of all workers. One that fails half way is cut: it
// lacks its end, by which whoever imports it knows.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) error {
	if len(r.URL.Query()) > 0 {
		return badRequest("a snapshot has all there is: it takes no parameters")
	}
	pipeline := r.PathValue("pipeline")
	from, ok := h.opts.Source.(Exporter)
	if !ok {
		return refuse(http.StatusNotFound, CodeUnknownPipeline, "no pipelines run here")
	}
	begun := false
	begin := func() {
		begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusOK)
	}
	// What fails before the buffer is full is an answer of its own.
	out := bufio.NewWriterSize(&first{begin: begin,
		w: &patient{w: w, control: http.NewResponseController(w)}}, 64<<10)
	err := from.ExportState(r.Context(), pipeline, out)
	switch {
	case begun && err != nil:
		h.opts.Logger.Warn("snapshot of a pipeline is cut", "pipeline", pipeline, "error", err)
		panic(http.ErrAbortHandler) // else the answer would end as a whole one does
	case errors.Is(err, ErrUnknownPipeline):
		return refuse(http.StatusNotFound, CodeUnknownPipeline, "pipeline %q does not run here",
			pipeline).do("millstream pipeline state snapshot %s FILE works from anywhere", pipeline)
	case errors.Is(err, task.ErrStateLost), errors.Is(err, task.ErrTopics):
		return refuse(http.StatusConflict, CodeNoState, "%v", err)
	case err != nil:
		return err
	}
	if err := out.Flush(); err != nil {
		return errTold // the client has gone
	}
	return nil
}

// first calls begin before the first byte.
type first struct {
	w     io.Writer
	begin func()
	begun bool
}

// Write implements io.Writer.
func (f *first) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	return f.w.Write(b)
}
