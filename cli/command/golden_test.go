package command

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestGolden runs the scripts in testdata/cli, each against a broker of its own. What a script
// prints is compared as a whole, standard output and standard error apart.
//
//	run            every line is a command line; `millstream` is left out
//	stdin          its text is the standard input of the next run
//
// -rewrite writes the files anew; what changed is what users will see.
func TestGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	datadriven.Walk(t, "testdata/cli", func(t *testing.T, path string) {
		broker := startBroker(t, map[string]string{"num.partitions": "1"})
		t.Setenv("MILLSTREAM_BOOTSTRAP", broker.address)
		var stdin string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "stdin":
				stdin = d.Input + "\n"
				return ""
			case "run":
				in := stdin
				stdin = ""
				return runScript(t, broker, d.Input, in)
			}
			d.Fatalf(t, "unknown directive %s", d.Cmd)
			return ""
		})
	})
}

func runScript(t *testing.T, broker cli, script, in string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(script) {
		args, err := splitLine(strings.TrimSpace(line))
		require.NoError(t, err)
		r := runWith(t.Context(), strings.NewReader(in), args...)
		require.NotContains(t, r.out+r.err, "\x1b", "no colour where there is no terminal")
		for _, stream := range []struct{ name, text string }{{"out", r.out}, {"err", r.err}} {
			for text := range strings.Lines(scrub(stream.text, broker)) {
				fmt.Fprintf(&b, "%s| %s\n", stream.name, strings.TrimRight(text, "\n "))
			}
		}
		if r.exit != 0 {
			fmt.Fprintf(&b, "exit %d\n", r.exit)
		}
	}
	return b.String()
}

// volatile is what differs between two runs.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^id     \S{22}$`), "id     ID"},
	{regexp.MustCompile(`"id": ?"[A-Za-z0-9_-]{22}"`), `"id": "ID"`},
	{regexp.MustCompile(`id: "[A-Za-z0-9_-]{22}"`), `id: "ID"`},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`"ts":1[78]\d{11}`), `"ts":TS`},
	{regexp.MustCompile(`go1\.\d+(\.\d+)?`), "GO"},
}

func scrub(text string, broker cli) string {
	text = strings.ReplaceAll(text, broker.address, "BROKER")
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// splitLine cuts a command line into words as a shell does: quotes of both kinds, no variables.
func splitLine(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote is not closed in: %s", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
