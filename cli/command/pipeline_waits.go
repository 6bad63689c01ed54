package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// waitShown is how long a partition must be quiet to be named as what holds others up: records that
// flow wait for each other all the time.
const waitShown = time.Second

// waits tells which steps wait for which input partitions, and what lets them go on.
func (st *pipelineStatus) waits(b *strings.Builder, now time.Time) {
	shown := 0
	for _, w := range st.Waits {
		quiet := now.Sub(w.Seen)
		if st.State != deploy.Running && st.State != deploy.Degraded || quiet < waitShown {
			continue
		}
		if shown++; shown > inputsShown {
			b.WriteString("waits     for more: -o json\n")
			return
		}
		last := "no records yet"
		if !w.Watermark.IsZero() {
			last = "nothing after " + w.Watermark.Format(time.RFC3339Nano)
		}
		fmt.Fprintf(b, "waits     %s for %s-%d: %s, quiet for %s; %s\n", fewNames(w.Steps), w.Topic,
			w.Partition, last, quiet.Round(time.Second), wayOut(w))
	}
}

// wayOut says what ends a wait.
func wayOut(w deploy.Wait) string {
	if w.IdleAfterSeconds > 0 {
		return "goes on without it after " + shortAge(w.IdleAfterSeconds)
	}
	return "idle_after: at " + orDash(w.Source) + " lets the others go on"
}

// fewNames are the first names of a list and how many more there are.
func fewNames(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
