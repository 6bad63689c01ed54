package file_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/connectors/file"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/plugintest"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// config makes a source configuration; extra is more JSON members, beginning with a comma.
func config(path, extra string) string { return fmt.Sprintf(`{"path":%q%s}`, path, extra) }

func read(t testing.TB, path, extra string) plugintest.Read {
	t.Helper()
	got, err := plugintest.ReadAll(t, file.Plugin(), "source", config(path, extra), nil)
	require.NoError(t, err)
	return got
}

// lines writes each record as "number value", flagged ones as "number! value: error".
func lines(r plugintest.Read) (out []string) {
	errs := map[int]string{}
	for _, e := range r.Errors {
		errs[e.Index] = e.Class + ": " + e.Message
	}
	for i, x := range r.Records {
		if e, ok := errs[i]; ok {
			at := strings.Index(e, x.Topic)
			out = append(out, fmt.Sprintf("%d! %.40q %s", x.Offset, x.Value, e[at+len(x.Topic):]))
			continue
		}
		out = append(out, fmt.Sprintf("%d %s", x.Offset, x.Value))
	}
	return out
}

func TestSourceNDJSON(t *testing.T) {
	long := `{"pad":"` + strings.Repeat("x", 1<<20) + `"}`
	text := "\xEF\xBB\xBF" + `{"id":1}` + "\r\n" + // a byte order mark and CRLF
		`{"id":2}` + "\n" +
		`{"id":` + "\n" + // truncated
		"\n" + // empty
		"{\"id\":\"\xff\"}\n" + // invalid UTF-8
		long + "\n" +
		"42\r\n" +
		`{"id":3}` // without a line end
	got := read(t, write(t, "in.ndjson", text), "")
	all := lines(got)
	require.Len(t, all, 8)
	require.Equal(t, `6 `+long, all[5])
	all[5] = ""
	require.Equal(t, []string{
		`1 {"id":1}`,
		`2 {"id":2}`,
		`3! "{\"id\":" :3: not JSON: unexpected end of JSON input`,
		`4! "" :4: empty line`,
		`5! "{\"id\":\"\xff\"}" :5: not UTF-8`,
		``,
		`7 42`,
		`8 {"id":3}`,
	}, all)
	bad := got.Records[2]
	require.Len(t, bad.Headers, 2)
	require.Equal(t, file.HeaderFile, bad.Headers[0].Key)
	require.Equal(t, bad.Topic, string(bad.Headers[0].Value))
	require.Equal(t, "3", string(bad.Headers[1].Value))
	require.Empty(t, got.Records[5].Headers)
	require.Contains(t, string(got.Position), fmt.Sprintf(`"offset":%d,"line":8`, len(text)))
}

func TestSourceSkipsEmptyLinesWhenTold(t *testing.T) {
	path := write(t, "in.ndjson", "\n1\n\r\n2\n\n")
	require.Equal(t, []string{"2 1", "4 2"}, lines(read(t, path, `,"empty_lines":"skip"`)))
}

func TestSourceLongLine(t *testing.T) {
	// 300 KiB lines against a limit of 200,000 bytes, larger than what is read at once.
	x := strings.Repeat("x", 300<<10)
	path := write(t, "in.txt", "a\n"+x+"\r\n"+"b\n"+x+"y")
	got := read(t, path, `,"max_line_bytes":200000`)
	require.Equal(t, []string{
		"1 a",
		`2! "` + x[:40] +
			`" :2: line of 307200 bytes is longer than max_line_bytes 200000; the rest is left out`,
		"3 b",
		`4! "` + x[:40] +
			`" :4: line of 307201 bytes is longer than max_line_bytes 200000; the rest is left out`,
	}, lines(got))
	require.Len(t, got.Records[1].Value, 200000)
}

// FuzzSourceLines compares the line reader, at any limit and position, with strings.Split.
func FuzzSourceLines(f *testing.F) {
	f.Add("a\nb\r\n\n\nc", 5)
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nb", 20)
	f.Add("\xEF\xBB\xBFx\r", 16)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 16 + abs(limit)%100
		if strings.HasPrefix(text, "\xFF\xFE") || strings.HasPrefix(text, "\xFE\xFF") {
			return
		}
		path := write(t, "in.txt", text)
		got := read(t, path, fmt.Sprintf(`,"max_line_bytes":%d`, limit))
		want := strings.Split(strings.TrimPrefix(text, "\xEF\xBB\xBF"), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		require.Equal(t, len(want), len(got.Records))
		for i, w := range want {
			if i < len(want)-1 || strings.HasSuffix(text, "\n") {
				w = strings.TrimSuffix(w, "\r")
			}
			require.Equal(t, w[:min(len(w), limit)], string(got.Records[i].Value), "line %d", i+1)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

func TestSourceCSV(t *testing.T) {
	text := "\xEF\xBB\xBFiata,name,lat\r\n" +
		"00M,\"Thigpen, \"\"old\"\"\",31.9\r\n" +
		"two,\"multi\r\nline\",1\r\n" + // lines 3 and 4
		"short,row\r\n" +
		"bad \"quote,x,1\r\n" +
		"open,\"never closed,1\r\n" +
		"\r\n" +
		"inv\xff,x,1\r\n" +
		"last,x,notanumber\r\n" +
		"ok,,"
	got := read(t, write(t, "in.csv", text), `,"types":{"lat":"number"}`)
	require.Equal(t, []string{
		`2 {"iata":"00M","name":"Thigpen, \"old\"","lat":31.9}`,
		`3 {"iata":"two","name":"multi\nline","lat":1}`,
		`5! "short,row" :5: 2 fields, the header has 3`,
		`6! "bad \"quote,x,1" :6: field 1 has a quote inside but does not begin with one`,
		`7! "open,\"never closed,1" :7: a quoted field has no end`,
		`8! "" :8: empty line`,
		`9! "inv\xff,x,1" :9: not UTF-8`,
		`10! "last,x,notanumber" :10: column "lat": "notanumber" is not a number`,
		`11 {"iata":"ok","name":"","lat":null}`,
	}, fixInvalid(lines(got)))
}

// fixInvalid accepts that an unclosed quote runs into a line that is no UTF-8.
func fixInvalid(in []string) []string {
	for i := range in {
		if strings.HasPrefix(in[i], "7!") {
			in[i] = strings.Replace(in[i], "not UTF-8", "a quoted field has no end", 1)
		}
	}
	return in
}

func TestSourceCSVHeaderFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":          "is empty: a csv file begins with a header row",
		"a,,c\n1":   "column 2 of the header has no name",
		"a,b,a\n1":  `the header names column "a" twice`,
		"\"a,b\n1":  "header row: a quoted field has no end",
		"\xFF\xFEa": "is UTF-16",
	} {
		path := write(t, "in.csv", text)
		_, err := plugintest.ReadAll(t, file.Plugin(), "source", config(path, ""), nil)
		require.ErrorIs(t, err, host.ErrFailed)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	_, err := plugintest.ReadAll(t, file.Plugin(), "source", config("/does/not/exist.csv", ""), nil)
	require.ErrorContains(t, err, "open /does/not/exist.csv: no such file or directory")
	path := write(t, "in.csv", "a\n1\n")
	_, err = plugintest.ReadAll(t, file.Plugin(), "source", config(path, `,"types":{"b":"bool"}`), nil)
	require.ErrorContains(t, err, `the header has no column "b"; it has: a`)
}

// The position after each batch leads to exactly the records that follow, also in packed files.
func TestSourceResumesEverywhere(t *testing.T) {
	var text bytes.Buffer
	for i := range 2500 {
		fmt.Fprintf(&text, "{\"i\":%d}\r\n", i)
	}
	plain := write(t, "in.ndjson", text.String())
	packed := filepath.Join(t.TempDir(), "in.ndjson.gz")
	f, err := os.Create(packed)
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(text.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	for _, path := range []string{plain, packed} {
		src, err := plugintest.Start(t, ptr(file.Plugin()), nil).Source(t.Context(), host.SourceOptions{
			Part: "source", Config: []byte(config(path, "")),
		})
		require.NoError(t, err)
		seen := 0
		for seen < 2500 {
			b, err := src.Read(t.Context())
			require.NoError(t, err)
			seen += len(b.Records)
			rest, err := plugintest.ReadAll(t, file.Plugin(), "source", config(path, ""), b.Position)
			require.NoError(t, err)
			require.Len(t, rest.Records, 2500-seen)
			if len(rest.Records) > 0 {
				require.Equal(t, fmt.Sprintf(`{"i":%d}`, seen), string(rest.Records[0].Value))
				require.Equal(t, int64(seen+1), rest.Records[0].Offset)
			}
		}
		require.NoError(t, src.Close())
	}
}

func ptr[T any](v T) *T { return &v }

func TestSourceNoticesAnotherFile(t *testing.T) {
	path := write(t, "in.ndjson", "1\n2\n")
	got := read(t, path, "")
	require.NoError(t, os.WriteFile(path, []byte("8\n9\n10\n"), 0o644))
	_, err := plugintest.ReadAll(t, file.Plugin(), "source", config(path, ""), got.Position)
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, "is not the file it was")
	require.NoError(t, os.WriteFile(path, []byte("1\n2\n3\n"), 0o644)) // a copy that grew
	rest, err := plugintest.ReadAll(t, file.Plugin(), "source", config(path, ""), got.Position)
	require.NoError(t, err)
	require.Equal(t, []string{"3 3"}, lines(rest))
}

func TestSourceConfigFaults(t *testing.T) {
	part := file.Plugin().Parts[0]
	for config, want := range map[string]string{
		`{}`:                            "/path: is required",
		`{"path":""}`:                   "/path: the length 0 is below the minimum 1",
		`{"path":"a","format":"x"}`:     `/format: "x" is not one of ndjson, csv, lines`,
		`{"path":"a.gz","follow":true}`: "/follow: a .gz file cannot be followed",
		`{"path":"a.csv","types":{"a":"integer"}}`: "/types/a: " +
			`"integer" is not one of string, number, bool`,
		`{"path":"a.txt","types":{"a":"number"}}`: "/types: only csv has columns",
		`{"path":"a","poll":"1ms"}`:               "/poll: 1ms is below the minimum 10ms",
		`{"path":"a","folow":true}`:               `/folow: unknown field "folow"`,
	} {
		found := part.Check([]byte(config))
		require.NotEmpty(t, found, config)
		require.Equal(t, want, found[0].Pointer+": "+found[0].Message)
	}
}

// follower reads a followed file until values came.
type follower struct {
	t   *testing.T
	src *host.Source
	pos []byte
}

func follow(t *testing.T, path string, position []byte) *follower {
	src, err := plugintest.Start(t, ptr(file.Plugin()), nil).Source(t.Context(), host.SourceOptions{
		Part: "source", Config: []byte(config(path, `,"follow":true,"poll":"10ms"`)), Position: position,
	})
	require.NoError(t, err)
	return &follower{t: t, src: src}
}

func (f *follower) want(values ...string) {
	f.t.Helper()
	var got []string
	for len(got) < len(values) {
		b, err := f.src.Read(f.t.Context())
		require.NoError(f.t, err)
		for _, r := range b.Records {
			got = append(got, string(r.Value))
		}
		f.pos = b.Position
	}
	require.Equal(f.t, values, got)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestSourceFollows(t *testing.T) {
	path := write(t, "in.ndjson", "1\n2")
	f := follow(t, path, nil)
	f.want("1")
	appendTo(t, path, "2\n3\n") // the incomplete line was not taken for a whole one
	f.want("22", "3")
	// Rotation: the rest of the old file comes before the new one.
	require.NoError(t, os.Rename(path, path+".1"))
	appendTo(t, path+".1", "4\n5")
	appendTo(t, path, "6\n")
	f.want("4", "5", "6")
	// Truncation in place: what is there now is shorter than what was read.
	appendTo(t, path, "77\n")
	f.want("77")
	require.NoError(t, os.Truncate(path, 0))
	appendTo(t, path, "8\n")
	f.want("8")
	require.NoError(t, f.src.Close())
}

func TestSourceFollowsThroughRotationWhileDown(t *testing.T) {
	path := write(t, "in.ndjson", "1\n2\n")
	f := follow(t, path, nil)
	f.want("1", "2")
	require.NoError(t, f.src.Close())
	appendTo(t, path, "3\n")
	require.NoError(t, os.Rename(path, path+".1"))
	appendTo(t, path, "4\n")
	g := follow(t, path, f.pos)
	g.want("3", "4")
}

func TestSourceSuite(t *testing.T) {
	var text strings.Builder
	for i := range 4321 {
		fmt.Fprintf(&text, "%s\n", must(json.Marshal(map[string]any{"i": i, "pad": strings.Repeat("p",
			i%300)})))
		if i%777 == 0 {
			text.WriteString("broken\n")
		}
	}
	path := write(t, "in.ndjson", text.String())
	plugintest.TestSource(t, plugintest.Source{Common: plugintest.Common{
		Command: plugintest.Self(t, "plugin"), Part: "source", Config: config(path, ""),
		BadConfig: config(path, `,"format":"xml"`), BadPointer: "/format",
	}})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkSource(b *testing.B) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, `{"id":%d,"at":"2001-01-01T06:20:00Z","origin":"BNA","delay":%d}`+"\n", i, i%60)
	}
	path := write(b, "in.ndjson", text.String())
	p := plugintest.Start(b, nil, ptr(plugintest.Self(b, "plugin")))
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		src, err := p.Source(b.Context(), host.SourceOptions{Part: "source", Config: []byte(config(path,
			""))})
		require.NoError(b, err)
		n := 0
		for n < 100_000 {
			batch, err := src.Read(b.Context())
			require.NoError(b, err)
			n += len(batch.Records)
			batch.Release()
		}
		require.NoError(b, src.Close())
	}
	b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "rec/s")
}
