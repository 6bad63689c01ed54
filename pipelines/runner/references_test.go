package runner_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/plugins/sdk"
)

const canary = "canary-7f3a91-secret"

// TestReferences: variables, environment and files reach the settings; a secret reaches the
// connector and nothing else: no log, topic, status, plan or state file has it.
func TestReferences(t *testing.T) {
	t.Setenv("MILLSTREAM_SECRET_TOKEN", canary)
	t.Setenv("RUNNER_TEST_MIN", "4")
	r, p := newProbe(t, nil)
	got := ""
	r.extra = []sdk.Plugin{{Name: "probe", Parts: []sdk.Part{
		sdk.NewSink("sink", func() sdk.SinkWriter[probeConfig] {
			return &tokenWriter{probeWriter{p}, &got}
		}),
	}}}
	r.file("path.txt", filepath.Join(r.dir, "in.jsonl"))
	r.vars["wanted"] = "c"
	yaml := `version: 1
pipeline: p
vars: {wanted: x, min: '${env:RUNNER_TEST_MIN}', other: '${env:NOT_SET:-fallback}'}
on_error: {then: dlq, dlq: dead}
sources:
  in: {connector: file, config: {path: '${file:path.txt}'}, partitions: 1}
steps:
  - filter: 'value.n > int(vars.min) && value.id == vars.wanted && vars.other == "fallback"'
  - log: 'passing {{ value.id }}'
sinks:
  probe: {connector: probe, config: {token: '${secret:token}'}}
`
	plan := r.plan(yaml).String()
	st := r.run(yaml)
	require.Equal(t, canary, got, "the connector has it")
	require.Len(t, p.taken(), 1)
	require.NotContains(t, plan, canary)
	require.NotContains(t, r.log.String(), canary)
	require.NotContains(t, fmt.Sprintf("%+v", st), canary)
	r.nowhere(canary)
}

type tokenWriter struct {
	probeWriter
	got *string
}

func (w *tokenWriter) Open(ctx sdk.Ctx, c probeConfig, o sdk.Offsets) error {
	*w.got = c.Token
	return w.probeWriter.Open(ctx, c, o)
}

// nowhere looks for a text in all topics and state files.
func (r *rig) nowhere(text string) {
	r.t.Helper()
	topics, err := kadm.NewClient(r.client).ListTopicsWithInternal(r.ctx())
	require.NoError(r.t, err)
	for _, topic := range topics.Names() {
		if topic == "__consumer_offsets" {
			continue
		}
		for _, rec := range r.read(topic) {
			require.NotContains(r.t, recordText(rec), text, topic)
		}
	}
	err = filepath.WalkDir(r.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(r.t, string(data), text, path)
		return err
	})
	require.NoError(r.t, err)
}

func recordText(rec *kgo.Record) string {
	text := string(rec.Key) + string(rec.Value)
	for _, h := range rec.Headers {
		text += h.Key + string(h.Value)
	}
	return text
}

func TestReferencesThatCannotBeResolved(t *testing.T) {
	r, _ := newProbe(t, nil)
	outside := filepath.Join(t.TempDir(), "outside.txt")
	require.NoError(t, os.WriteFile(outside, []byte("x"), 0o644))
	for ref, want := range map[string]string{
		"${secret:absent}":                 "MILLSTREAM_SECRET_ABSENT",
		"${env:RUNNER_TEST_ABSENT}":        "RUNNER_TEST_ABSENT",
		"${file:absent.txt}":               "absent.txt",
		"${file:" + outside + "}":          "outside",
		"${file:../../../../etc/hostname}": "escapes",
	} {
		_, err := r.runner().Prepare(r.ctx(), r.revision("version: 1\npipeline: p\n"+
			"sources: {in: {connector: file, config: {path: DIR/in.jsonl}}}\n"+
			"sinks: {probe: {connector: probe, config: {token: '"+ref+"'}}}\n"))
		require.ErrorContains(t, err, want, ref)
		require.ErrorContains(t, err, "pipeline.yaml:4", ref)
	}
}
