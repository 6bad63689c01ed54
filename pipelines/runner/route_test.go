package runner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// TestRouteMakesTheTopicsItsRecordsName: topics are made as they are named; a record that names the
// pipeline's own input is a dead letter. The run is a replay, whose outputs stand beside.
func TestRouteMakesTheTopicsItsRecordsName(t *testing.T) {
	m := client.NewMemory()
	require.NoError(t, m.Admin().CreateTopics(t.Context(),
		client.TopicSpec{Name: "in", Partitions: 1}))
	for i, site := range []string{"no", "de", "no", "/"} {
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in"}, record.Record{
			Value: fmt.Appendf(nil, `{"n":%d,"site":%q}`, i, site)}))
	}
	r := runner.New(runner.Options{StateDir: t.TempDir(),
		Cluster: func() (client.Cluster, error) { return m, nil }})
	instance, err := r.Prepare(t.Context(), deploy.Revision{Name: "run", File: "p.yaml", Number: 1,
		Text: "version: 1\npipeline: p\non_error: {dlq: dead}\nsources: {in: {topic: in}}\n" +
			"steps:\n  - route: web-{{ value.site }}\n",
		Replay: &deploy.Replay{Of: "p", Prefix: "run",
			Ranges: map[string]map[int32]deploy.Span{"in": {0: {To: 4}}}}})
	require.NoError(t, err)
	require.NoError(t, instance.Run(t.Context()))
	values := func(topic string) (list []string) {
		for _, rec := range m.Records(client.TopicPartition{Topic: topic}) {
			list = append(list, string(rec.Value))
		}
		return list
	}
	require.Equal(t, []string{`{"n":0,"site":"no"}`, `{"n":2,"site":"no"}`}, values("run.web-no"))
	require.Equal(t, []string{`{"n":1,"site":"de"}`}, values("run.web-de"))
	require.Equal(t, []string{`{"n":3,"site":"/"}`}, values("run.dead"))
}
