package runner_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestIncludedFileAndSeveralTopicsRun: the shared template sees the shared constant, and the
// records of both topics.
func TestIncludedFileAndSeveralTopicsRun(t *testing.T) {
	r := newRig(t)
	r.topic("orders.de", 2)
	r.topic("orders.fr", 2)
	r.file("common.yaml", "vars: {least: 5}\ntemplates:\n  big:\n"+
		"    steps: [{id: k, filter: value.n > vars.least}]\n")
	for topic, value := range map[string]string{"orders.de": `{"n":6}`, "orders.fr": `{"n":7}`} {
		for _, v := range []string{value, `{"n":5}`} {
			r.write(&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(v),
				Timestamp: time.UnixMilli(1000)})
		}
	}
	s := r.start(`version: 1
pipeline: p
include: common.yaml
sources: {in: {topics: [orders.de, orders.fr], key: string, idle_after: 100ms}}
steps: [{id: keep, use: big}]
sinks: {out: {topic: out}}
`)
	s.await("out", `k={"n":6}`, `k={"n":7}`)
	s.halt()
}
