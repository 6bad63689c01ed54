package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPlanAndApplyLookAtTheCluster: what could only fail is refused before it is applied.
func TestPlanAndApplyLookAtTheCluster(t *testing.T) {
	c := server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("look"))
	c.ok("topic", "create", "loook-in", "-p", "1")
	for _, verb := range []string{"plan", "apply"} {
		got := c.run("pipeline", verb, file)
		require.Equal(t, 2, got.exit, verb)
		require.Contains(t, got.err, file+`:3:28: error[E501]: the topic "look-in" does not exist`)
		require.Contains(t, got.err, `did you mean "loook-in"?`)
	}
	require.NotContains(t, c.ok("pipeline", "ls"), "look", "nothing was applied")

	c.ok("topic", "create", "look-in", "-p", "1")
	c.ok("pipeline", "plan", file)
	c.ok("pipeline", "apply", file)
	other := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"),
		strings.Replace(doubled("look"), "pipeline: look", "pipeline: second", 1))
	got := c.run("pipeline", "apply", other)
	require.Equal(t, 2, got.exit)
	require.Contains(t, got.err, `error[E504]: the pipeline "look" writes the topic "look-out" already`)
	shared := writeFile(t, other, strings.Replace(strings.Replace(doubled("look"), "pipeline: look",
		"pipeline: second", 1), "topic: look-out}", "topic: look-out, shared: true}", 1))
	c.ok("pipeline", "apply", shared)
}

// TestDevStartsWhenTheTopicIsThere: a topic that is not there is named with the command that makes
// it on the broker at hand; when it is made the pipeline starts, and no file has to be saved.
func TestDevStartsWhenTheTopicIsThere(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "pipeline.yaml"), doubled("later"))
	p := started(t, "dev", dir, "--data-dir", filepath.Join(t.TempDir(), "data"))
	command := "topic create later-in --partitions 1 --bootstrap " + p.ready.Bootstrap
	p.says(t, "create it: millstream "+command)
	p.says(t, "waits    later starts when that is mended")
	r := run(t, strings.Fields(command)...)
	require.Zero(t, r.exit, r.err)
	p.says(t, "starts   later")
	p.client(t).feed(numbers(0, 4), "produce", "later-in")
	p.prints(t, `"twice"`)
	require.Zero(t, p.stop(), "%s", p.err)
}

// TestPlanTellsMissingRights: of topics that may be seen, plan says which the pipeline may not read
// or write, by what the broker's rules say. Whoever may do all is told nothing.
func TestPlanTellsMissingRights(t *testing.T) {
	c := startBroker(t, map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		// Everybody makes topics and rules here; of a topic with a rule the rules decide.
		"allow.everyone.if.no.acl.found": "true"})
	c.ok("topic", "create", "rights-in", "rights-out", "-p", "1")
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("rights"))
	require.NotContains(t, c.run("pipeline", "plan", file).err, "W503")

	allow := func(topic string, operations ...kadm.ACLOperation) {
		rules := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).
			Allow("User:ANONYMOUS").AllowHosts("*").Operations(operations...)
		made, err := kadm.NewClient(c.kafka()).CreateACLs(t.Context(), rules)
		require.NoError(t, err)
		for _, one := range made {
			require.NoError(t, one.Err)
		}
	}
	allow("rights-in", kadm.OpWrite)
	allow("rights-out", kadm.OpRead)
	r := c.run("pipeline", "plan", file)
	require.Zero(t, r.exit, "warnings refuse nothing: %s", r.err)
	require.Contains(t, r.err, `:3:28: warning[W503]: you may not read the topic "rights-in"`)
	require.Contains(t, r.err, `warning[W503]: you may not write the topic "rights-out"`)
	require.Contains(t, r.err, "the worker needs the right READ on it")

	allow("rights-in", kadm.OpRead)
	allow("rights-out", kadm.OpWrite)
	require.NotContains(t, c.run("pipeline", "plan", file).err, "W503")
}

// TestTopicsByPattern: plan and apply say what a pattern finds; a topic that comes later is read
// from its beginning without an order, and every record once.
func TestTopicsByPattern(t *testing.T) {
	c := server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), strings.Replace(doubled("found"),
		"topic: found-in", "topics: 'found-in-[a-z]+', idle_after: 100ms", 1))
	require.Zero(t, run(t, "pipeline", "lint", file).exit, "without a cluster it is a pattern")
	got := c.run("pipeline", "apply", file)
	require.Equal(t, 2, got.exit)
	require.Contains(t, got.err, file+`:3:29: error[E501]: no topic there is matches found-in-[a-z]+`)

	c.ok("topic", "create", "found-in-de", "-p", "1")
	require.Contains(t, c.ok("pipeline", "plan", file), "finds found-in-de; ", "one is enough")
	c.ok("topic", "create", "found-in-fr", "-p", "1")
	require.Contains(t, c.ok("pipeline", "plan", file),
		"topics found-in-[a-z]+   finds found-in-de, found-in-fr; those that come later")
	c.ok("pipeline", "apply", file)
	c.feed(numbers(0, 4), "produce", "found-in-de")
	c.feed(numbers(4, 4), "produce", "found-in-fr")
	c.waitOut("found", 4)
	c.ok("topic", "create", "found-in-at", "-p", "1")
	c.feed(numbers(8, 4), "produce", "found-in-at")
	st := c.waitOut("found", 6)
	require.Equal(t, 2, st.WantedRevision)
	written := func() int { // what is counted may not be committed yet
		return strings.Count(c.ok("consume", "found-out", "--from", "start", "--to", "end", "-o",
			"ndjson"), "twice")
	}
	eventually(t, func() bool { return written() >= 6 }, func() string { return "6 records" })
	require.Equal(t, 6, written())
	require.Contains(t, c.ok("pipeline", "logs", "found"), "new topics match and are read")
}

// TestDevMatchesAgainWhileItWaits: the cluster is looked at each second, and what a pattern had
// found before is found once.
func TestDevMatchesAgainWhileItWaits(t *testing.T) {
	c := startBroker(t, nil)
	c.ok("topic", "create", "seen-in-de", "seen-in-fr", "-p", "1")
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), strings.Replace(doubled("seen"),
		"topic: seen-in", "topics: 'seen-in-[a-z]+', idle_after: 1s", 1))
	c.ok("pipeline", "apply", file, "--no-wait")
	p, err := readPipeline(file, nil, false, "")
	require.NoError(t, err)
	connect := func(opts ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append(opts, kgo.SeedBrokers(c.address))...)
	}
	for range 3 {
		require.NoError(t, p.match(t.Context(), connect, ""))
		require.False(t, p.failed(), "%s", p.render(p.findings))
		require.Equal(t, map[string][]string{"numbers": {"seen-in-de", "seen-in-fr"}}, p.revision.Matched)
	}

	c.ok("topic", "create", "seen-in-at", "-p", "2")
	got := c.run("pipeline", "plan", file)
	require.Zero(t, got.exit, got.err)
	require.Contains(t, got.err, "warning: topic seen-in-at matches seen-in-[a-z]+ and is not read: it"+
		" has 2 partitions, and seen-in-de has 1")
}

// TestDevRefusesWhatDoesNotCompileWithTheTopicsFound while it waits for the cluster.
func TestDevRefusesWhatDoesNotCompileWithTheTopicsFound(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "pipeline.yaml"), `version: 1
pipeline: meets
sources: {one: {topic: meets-a}, all: {topics: 'meets-[a-z]', idle_after: 1s}}
steps: [{id: both, from: [one, all], filter: value.n > 0}]
sinks: {out: {from: both, topic: meets-out}}
`)
	p := started(t, "dev", dir, "--data-dir", filepath.Join(t.TempDir(), "data"))
	p.says(t, "waits    meets starts when that is mended")
	require.NotContains(t, p.err.String(), "error[E323]")
	r := run(t, "topic", "create", "meets-a", "-p", "1", "--bootstrap", p.ready.Bootstrap)
	require.Zero(t, r.exit, r.err)
	p.says(t, "error[E323]")
}
