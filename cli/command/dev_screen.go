package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
)

// devScreen is what dev tells people on standard error.
type devScreen struct {
	app *app

	mu struct {
		sync.Mutex
		file    *pipelineFile // nil without a pipeline
		started time.Time     // when it began
		bar     *output.Progress
		in      int64 // records read when it ended the last time
		ended   bool  // the bar has done its work
		advised bool  // what to do next was said
	}
}

func newDevScreen(a *app, file *pipelineFile) *devScreen {
	s := &devScreen{app: a}
	s.mu.file, s.mu.started = file, time.Now()
	return s
}

// use makes another version of the pipeline the one that is spoken of.
func (s *devScreen) use(file *pipelineFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.file.revision.Name != file.revision.Name {
		s.mu.advised, s.mu.in = false, 0
	}
	s.mu.file, s.mu.started = file, time.Now()
}

func (s *devScreen) file() *pipelineFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.file
}

// bootstrap is the flag that commands need when the broker is not where they look for it.
func (s *devScreen) bootstrap(n *node) string {
	if n.broker.Addr() == defaultBootstrap {
		return ""
	}
	return " --bootstrap " + n.broker.Addr()
}

func (s *devScreen) note(format string, args ...any) {
	s.clear()
	s.app.printer.Note("  "+format, args...)
}

// clear removes the bar so that something else can be printed.
func (s *devScreen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.bar != nil {
		s.mu.bar.Clear()
	}
}

// addresses says where everything is.
func (s *devScreen) addresses(n *node) {
	for _, taken := range n.moved {
		s.note("note     %s is taken, another port is used", taken)
	}
	s.note("broker   %s   for every Kafka client, e.g. kcat -b %s -L", n.broker.Addr(),
		n.broker.Addr())
	s.note("http     http://%s/metrics", n.broker.HTTPAddr())
	s.note("data     %s", n.opts.dataDir)
	file := s.file()
	if file == nil {
		s.note("no pipeline here; millstream pipeline init DIR writes a first one")
		return
	}
	s.note("pipeline %s   %s   reloads when it changes", file.revision.Name, file.revision.File)
	wide := 0
	for _, sink := range file.plan.Sinks {
		wide = max(wide, len(sinkText(sink)))
	}
	for _, sink := range file.plan.Sinks {
		s.note("sink     %-*s   %s", wide, sinkText(sink), sink.Guarantee)
	}
}

// sinkText is a sink and, where its name does not tell, where it writes to.
func sinkText(sink *plan.Sink) string {
	switch {
	case sink.Connector != nil:
		return sink.ID + " -> connector " + sink.Connector.Name
	case sink.Topic != sink.ID:
		return sink.ID + " -> " + sink.Topic
	}
	return sink.ID
}

// show moves the progress bar of the ingest. Of one that is over at once it shows the end.
func (s *devScreen) show(st deploy.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, total, ended := ingestProgress(st, s.mu.file)
	if total == 0 || s.mu.ended {
		return
	}
	if s.mu.bar == nil {
		s.mu.bar = s.app.printer.NewProgress("  ingest", total, output.Bytes)
	}
	s.mu.bar.Set(done)
	if ended {
		s.mu.ended = true
		s.mu.bar.Finish(total)
	}
}

// ingestProgress adds up how many bytes of the files of bounded sources are read.
func ingestProgress(st deploy.Status, file *pipelineFile) (done, total int64, ended bool) {
	ended = true
	for _, source := range st.Sources {
		planned := file.plan.Source(source.ID)
		if planned == nil || planned.Connector == nil {
			continue
		}
		var config struct {
			Path string `json:"path"`
		}
		_ = json.Unmarshal(planned.Connector.Config.JSON(), &config) // no path, no size
		path := config.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(file.revision.Dir, path)
		}
		info, err := os.Stat(path)
		if config.Path == "" || err != nil {
			continue
		}
		var position struct {
			Offset int64 `json:"offset"`
		}
		_ = json.Unmarshal([]byte(source.Position), &position) // an unknown shape shows no progress
		if source.Ended {
			position.Offset = info.Size()
		}
		done += position.Offset
		total += info.Size()
		ended = ended && source.Ended
	}
	return done, total, ended
}

func (s *devScreen) refused(why string) {
	s.note("refused; the running revision goes on\n%s", strings.TrimRight(why, "\n"))
}

func (s *devScreen) stopping() {
	s.note("stopping: draining pipelines")
}

// ended says how a pipeline came to its end and what to do next.
func (s *devScreen) ended(n *node, st deploy.Status, unseen int64) {
	if unseen > 0 {
		s.note("… %s not shown", plural(unseen, "more row"))
	}
	at := s.bootstrap(n)
	if st.State == deploy.Failed {
		s.note("failed   %s\n           its position is kept; correct the pipeline, it is started again",
			st.Error)
		s.note("look     millstream pipeline logs %s%s", st.Name, at)
		return
	}
	if s.sameAsBefore(st) {
		s.note("done     no new records; all there are were processed before")
	} else {
		s.note("done     %d records in, %d out, %d late, %d dead-lettered in %.1f s", st.RecordsIn,
			st.RecordsOut, st.Late, st.DeadLettered, s.elapsed().Seconds())
	}
	if dlq := deadLetters(s.file().plan); st.DeadLettered > 0 && dlq != "" {
		s.note("why      millstream consume %s --from -5 -o json%s   see ms-dlq-error", dlq, at)
	}
	s.advise(st.Name, at)
}

// sameAsBefore tells whether nothing was read since the pipeline ended the last time.
func (s *devScreen) sameAsBefore(st deploy.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mu.in
	s.mu.in = st.RecordsIn
	return before == st.RecordsIn
}

func (s *devScreen) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.mu.started)
}

// deadLetters is the topic of records that could not be processed; "" without one.
func deadLetters(p *plan.Plan) string {
	for _, t := range p.Topics {
		if t.Role == plan.TopicDLQ {
			return t.Name
		}
	}
	return ""
}

// advise tells once what there is to look at.
func (s *devScreen) advise(name, at string) {
	s.mu.Lock()
	advised := s.mu.advised
	s.mu.advised = true
	s.mu.Unlock()
	if advised {
		return
	}
	for _, sink := range s.file().plan.Sinks {
		if sink.Connector == nil {
			s.note("look     millstream consume %s --from -5%s", sink.Topic, at)
		}
	}
	s.note("look     millstream pipeline status %s%s", name, at)
	s.note("replay   millstream replay run %s --from start --as %s-again --wait%s", name, name, at)
	s.note("         millstream replay verify %s-again%s", name, at)
}
