package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

func noEnv(string) (string, bool) { return "", false }

// TestExprPositions writes one expression in every scalar style YAML has. In each, the place that
// At gives for the character after the first > is the place of @ in the marked form of the file.
func TestExprPositions(t *testing.T) {
	for _, c := range []struct{ style, file string }{
		{"plain", "steps:\n  - filter: a.b > @c\n"},
		{"plain in flow", "steps: [{filter: a.b > @c}]\n"},
		{"plain folded over lines", "steps:\n  - filter: a.b\n      > @c\n"},
		{"single quotes", "steps:\n  - filter: 'x == \"it''s\" && a > @c'\n"},
		{"double quotes with escapes",
			"steps:\n  - filter: \"x == \\\"\\u00e9\\t\\x41\\\" && a > @c\"\n"},
		{"double quotes over lines", "steps:\n  - filter: \"a.b\n      > @c\"\n"},
		{"double quotes, joined line", "steps:\n  - filter: \"a.b \\\n      > @c\"\n"},
		{"double quotes, empty line", "steps:\n  - filter: \"a.b\n\n      > @c\"\n"},
		{"literal", "steps:\n  - filter: |\n      a.b\n        > @c\n"},
		{"literal, first line blank", "steps:\n  - filter: |\n\n      a.b > @c\n"},
		{"literal, indicator and chomping", "steps:\n  - filter: |2-\n        a.b > @c\n"},
		{"literal, comment on the header", "steps:\n  - filter: |- # why\n      a.b > @c\n"},
		{"outside ASCII before it", "steps:\n  - filter: x == \"größe 😀\" && a > @c\n"},
		{"after an anchor and a tag", "steps:\n  - filter: &x !!str a.b > @c\n"},
		{"CRLF line ends", "steps:\r\n  - filter: |\r\n      a.b\r\n      > @c\r\n"},
		{"byte order mark", "\ufeffsteps:\n  - filter: a.b > @c\n"},
	} {
		line, col := 1, 1
		for _, r := range strings.TrimPrefix(c.file, "\ufeff") {
			if r == '@' {
				break
			}
			if col++; r == '\n' {
				line, col = line+1, 1
			}
		}
		p, findings := Load("f", []byte(strings.Replace(c.file, "@", "", 1)), Options{})
		require.NotEmpty(t, p.Steps.Items, "%s: %v", c.style, findings)
		e := p.Steps.Items[0].Filter
		offset := len([]rune(e.Text[:strings.Index(e.Text, "> c")+2]))
		require.Equal(t, Pos{"f", line, col}, e.At(offset), c.style)
	}
}

func TestReferences(t *testing.T) {
	file := []byte(`version: 1
pipeline: p
vars: {n: 3, s: abc, f: 2.5, b: true, e: '${env:HOST:-local}'}
sources:
  a:
    connector: x
    config:
      whole: ${var:n}
      text: 'n=${var:n} b=${var:b} f=${var:f}'
      env: '${env:HOST:-none}'
      empty: '${env:EMPTY:-filled}'
      escaped: '$${env:X}'
      var: '${var:e}'
      secret: 'user:${secret:pw}'
      file: '${file:/run/token}'
    partitions: ${var:n}
    topic: 't-${var:s}'
`)
	opts := Options{
		Vars: map[string]string{"n": "7"},
		Env: func(n string) (string, bool) {
			v, ok := map[string]string{"HOST": "db", "EMPTY": ""}[n]
			return v, ok
		},
		Secret:   func(name string) (string, error) { return "canary-" + name, nil },
		ReadFile: func(path string) ([]byte, error) { return []byte("canary-file\n"), nil },
	}
	p, findings := Load("f", file, opts)
	require.Empty(t, findings)
	s, _ := p.Sources.Get("a")
	require.EqualValues(t, 7, s.Partitions.Value)
	require.EqualValues(t, "t-abc", s.Topic.Value)
	require.JSONEq(t, `{"whole": 7, "text": "n=7 b=true f=2.5", "env": "db", "empty": "filled",
		"escaped": "${env:X}", "var": "db", "secret": "user:canary-pw", "file": "canary-file"}`,
		string(s.Config.JSON()))

	shown, err := json.Marshal(&s.Config)
	require.NoError(t, err)
	for _, text := range []string{string(shown), fmt.Sprintf("%v %+v %#v", s, s, *s),
		fmt.Sprintf("%s %x %q", s.Config.Any(false), s.Config.Any(false), s.Config.Any(false))} {
		require.NotContains(t, text, "canary")
		require.NotContains(t, text, fmt.Sprintf("%x", "canary"))
	}

	opts.Secret = func(string) (string, error) { return "", errors.New("no store") }
	opts.ReadFile = nil
	_, findings = Load("f", file, opts)
	require.Len(t, findings, 2)
	require.Contains(t, findings[0].Message, "cannot get ${secret:pw}: no store")
	require.Equal(t, 14, findings[0].Line)
	require.Contains(t, findings[1].Message, "${file:…} is not allowed here")
}

func TestSecretIsNeverShown(t *testing.T) {
	s := NewSecret("canary")
	js, err := json.Marshal(map[string]any{"a": s})
	require.NoError(t, err)
	ym, err := yaml.Dump(map[string]any{"a": s})
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "a", s, "b", map[string]any{"c": s})
	for _, text := range []string{string(js), string(ym), log.String(),
		fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s)} {
		require.NotContains(t, text, "canary")
		require.NotContains(t, text, fmt.Sprintf("%x", "canary"))
	}
	require.Equal(t, "canary", s.Reveal())
}

func TestLimits(t *testing.T) {
	bomb := "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for i := range 6 {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", 'b'+i, 'b'+i,
			strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 10))
	}
	for name, file := range map[string]string{
		"too large":       strings.Repeat("#", MaxFileBytes+1),
		"too deep":        "version: " + strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"alias expansion": bomb,
	} {
		_, findings := Load("f", []byte(file), Options{})
		require.NotEmpty(t, findings, name)
		require.Contains(t, []Code{CodeTooLarge, CodeSyntax}, findings[0].Code, name)
	}
}

// TestDeepNestingNeedsLittleMemory: these took 16 GB, when the second parser was asked.
func TestDeepNestingNeedsLittleMemory(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "- ", "? ", "[{a: ", "- [", "a: [", "!!x [", "'["} {
		for _, file := range []string{
			strings.Repeat(unit, MaxFileBytes/len(unit)), "a: " + strings.Repeat(unit, 9000) + "]",
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, findings := Load("f", []byte(file), Options{})
			runtime.ReadMemStats(&after)
			require.NotEmpty(t, findings, unit)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), unit)
		}
	}
}

func TestDurationsAndSizes(t *testing.T) {
	for text, want := range map[string]string{"250ms": "250ms", "1h30m": "1h30m0s", "2d": "48h0m0s",
		"1d12h": "36h0m0s", "0": "0s", "0s": "0s"} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.String(), text)
	}
	for _, text := range []string{"", "d", "30", "1 h", "-1s", "+1s", "1w", "1d0", "1e3s", "99999d"} {
		_, err := ParseDuration(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]Bytes{"512": 512, "64KiB": 65536, "10MB": 10_000_000,
		"1GiB": 1 << 30, "7B": 7, "0": 0} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "1.5GiB", "1TiB", "MB", "99999999999GiB"} {
		_, err := ParseBytes(text)
		require.Error(t, err, text)
	}
}

// plainTree is a tree without places, for comparing.
func plainTree(t *testing.T, text []byte) string {
	p, findings := Load("f", text, Options{Env: noEnv})
	require.False(t, HasErrors(findings), "%v\n%s", findings, text)
	p.File = nil
	js, err := json.Marshal(p)
	require.NoError(t, err)
	var any any
	require.NoError(t, json.Unmarshal(js, &any))
	js, err = json.Marshal(dropPlaces(any))
	require.NoError(t, err)
	return string(js)
}

func dropPlaces(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "Pos")
		delete(v, "At")
		delete(v, "OperatorPos")
		for k := range v {
			v[k] = dropPlaces(v[k])
		}
	case []any:
		for i := range v {
			v[i] = dropPlaces(v[i])
		}
	}
	return v
}

func TestFormat(t *testing.T) {
	messy := "# top\nsinks:\n    a: {topic: x, from: y}  # line\n\n\n# about steps\nsteps:\n" +
		"  # first\n  - filter: 'a'\n    id: x\n\n  # second\n  - {log: hi, id: y}\n" +
		"  - id: z\n    map: |\n      {\n\n        \"a\": 1\n      }\n" +
		"# in front\nversion: 1\npipeline:   p\n"
	want := `# in front
version: 1
pipeline: p

# about steps
steps:
  # first
  - id: x
    filter: 'a'

  # second
  - {id: y, log: hi}
  - id: z
    map: |
      {

        "a": 1
      }

# top
sinks:
  a: {from: y, topic: x} # line
`
	got, findings := Format("f", []byte(messy))
	require.Empty(t, findings)
	require.Equal(t, want, string(got))
	require.Equal(t, plainTree(t, []byte(messy)), plainTree(t, got))

	_, findings = Format("f", []byte("a: [1"))
	require.True(t, HasErrors(findings))
}

// TestFormatKeepsMeaning formats every example: the tree stays the same, and a second pass
// changes nothing.
func TestFormatKeepsMeaning(t *testing.T) {
	files, err := filepath.Glob("../check/testdata/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		once, findings := Format(file, text)
		require.Empty(t, findings, file)
		require.Equal(t, plainTree(t, text), plainTree(t, once), file)
		twice, _ := Format(file, once)
		require.Equal(t, string(once), string(twice), file)
	}
	flights, err := os.ReadFile("../check/testdata/flights/pipeline.yaml")
	require.NoError(t, err)
	formatted, _ := Format("f", flights)
	require.Equal(t, string(flights), string(formatted), "examples are kept formatted")
}

// TestEveryKeyIsDescribed keeps the table of texts equal to the keys of the structs.
func TestEveryKeyIsDescribed(t *testing.T) {
	var g schemaGen
	_ = g
	schema := string(JSONSchema())
	used := 0
	for key, text := range keyTexts {
		require.True(t, (text.doc == "") != (text.later == ""), key)
		_, name, _ := strings.Cut(key, ".")
		if text.later == "" && !strings.HasPrefix(key, "Window.") {
			require.Contains(t, schema, `"`+name+`"`, key)
		}
		used++
	}
	require.Greater(t, used, 80)
}

func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("../check/testdata/*/*.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	mistakes, _ := filepath.Glob("../check/testdata/mistakes/*.txt")
	for _, file := range mistakes {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n\n") {
			_, yaml, _ := strings.Cut(part, "\nlint\n")
			yaml, _, _ = strings.Cut(yaml, "----\n")
			f.Add([]byte(yaml))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, findings := Load("f", text, Options{Env: noEnv})
		for _, x := range findings {
			if x.Line < 1 || x.Col < 1 || x.Line > len(p.File.lines)+1 {
				t.Fatalf("finding without a place: %+v", x)
			}
		}
		for i := range p.Steps.Items {
			e := &p.Steps.Items[i].Filter
			for o := range len([]rune(e.Text)) + 2 {
				e.At(o)
			}
		}
		out, findings := Format("f", text)
		if HasErrors(findings) {
			return
		}
		if _, again := Format("f", out); HasErrors(again) {
			t.Fatalf("formatted text cannot be read again: %v\n%s", again, out)
		}
	})
}

func TestFilesUnder(t *testing.T) {
	allowed, outside := t.TempDir(), t.TempDir()
	token, secret := filepath.Join(allowed, "token"), filepath.Join(outside, "shadow")
	require.NoError(t, os.WriteFile(token, []byte("t\n"), 0o600))
	require.NoError(t, os.WriteFile(secret, []byte("s\n"), 0o600))
	link := filepath.Join(allowed, "link")
	require.NoError(t, os.Symlink(secret, link))
	read := FilesUnder(allowed)
	text, err := read(token)
	require.NoError(t, err)
	require.Equal(t, "t\n", string(text))
	for _, path := range []string{secret, link, allowed + "/../" + filepath.Base(outside) + "/shadow",
		"token", allowed, filepath.Join(allowed, "none")} {
		_, err := read(path)
		require.Error(t, err, path)
	}
	_, err = FilesUnder()(token)
	require.Error(t, err)
}
