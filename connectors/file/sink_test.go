package file_test

import (
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

// batch makes records of topic "test" with offsets from first on.
func batch(first int64, values ...string) []plugintest.Record {
	out := make([]plugintest.Record, len(values))
	for i, v := range values {
		out[i] = plugintest.NewRecord("", v)
		out[i].Offset = first + int64(i)
	}
	return out
}

func put(t *testing.T, path string, records []plugintest.Record) ([]plugintest.RecordError, error) {
	t.Helper()
	return plugintest.Write(t, file.Plugin(), "sink", config(path, ""), nil, records)
}

func requirePut(t *testing.T, path string, records []plugintest.Record) {
	t.Helper()
	errs, err := put(t, path, records)
	require.NoError(t, err)
	require.Empty(t, errs)
}

func requireFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func journalOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".journal")
}

func TestSinkNDJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "out.ndjson")
	null := batch(3, "")
	null[0].Value = nil
	errs, err := put(t, path, append(batch(0, `{"a":1}`, "{\"a\":\n2}\r\n", "no json"), null...))
	require.NoError(t, err)
	require.Len(t, errs, 1)
	require.Equal(t, 2, errs[0].Index)
	require.Contains(t, errs[0].Message, path+": the value is not JSON")
	requireFile(t, path, "{\"a\":1}\n{\"a\":2}\nnull\n")
}

func TestSinkWritesRowsOfCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	errs, err := put(t, path, batch(0,
		`{"state":"MS","n":3,"note":"a, \"b\"\nc"}`, `{"n":1.50,"state":null}`, `{"x":1}`, `[1]`))
	require.NoError(t, err)
	require.Len(t, errs, 2)
	require.Contains(t, errs[0].Message,
		`no column for member "x" (1); the columns are: state, n, note`)
	require.Contains(t, errs[1].Message, "the value is not a JSON object")
	requireFile(t, path, "state,n,note\nMS,3,\"a, \"\"b\"\"\nc\"\n,1.50,\n")
	requirePut(t, path, batch(4, `{"note":"later","state":"AK"}`)) // the header is remembered
	requireFile(t, path, "state,n,note\nMS,3,\"a, \"\"b\"\"\nc\"\n,1.50,\nAK,,later\n")
}

func TestSinkSkipsWhatItHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	requirePut(t, path, batch(0, "0", "1", "2"))
	requirePut(t, path, batch(1, "1", "2", "3"))
	other := batch(0, "100")
	other[0].Partition = 1
	requirePut(t, path, append(other, batch(3, "3", "4")...))
	requireFile(t, path, "0\n1\n2\n3\n100\n4\n")
}

// Each prefix of what a crash can leave of the last write leads to the same file.
func TestSinkRecoversFromEveryTornWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	requirePut(t, path, batch(0, `{"first":1}`))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	journalBefore, err := os.ReadFile(journalOf(path))
	require.NoError(t, err)
	second := batch(1, `{"second":2}`, `{"third":3}`)
	requirePut(t, path, second)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	journal, err := os.ReadFile(journalOf(path))
	require.NoError(t, err)
	for cut := len(journalBefore); cut <= len(journal); cut++ { // the file is written after the journal
		restore(t, path, before, journal[:cut])
		requirePut(t, path, second)
		requireFile(t, path, string(whole))
	}
	restore(t, path, whole[:len(whole)-1], journal)
	requirePut(t, path, batch(1, `2`)) // the torn bytes are gone, not only overwritten
	requireFile(t, path, string(before)+"2\n")
	for cut := len(before); cut <= len(whole); cut++ {
		restore(t, path, whole[:cut], journal)
		requirePut(t, path, second)
		requireFile(t, path, string(whole))
		// After a power failure the length may be there before the bytes.
		holes := append(append([]byte{}, whole[:cut]...), make([]byte, len(whole)-cut)...)
		restore(t, path, holes, journal)
		requirePut(t, path, second)
		requireFile(t, path, string(whole))
	}
}

func restore(t *testing.T, path string, data, journal []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o644))
	require.NoError(t, os.WriteFile(journalOf(path), journal, 0o644))
}

func TestSinkRefusesAnAlteredFile(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, path string)
		want   string
	}{
		"appended": {func(t *testing.T, path string) { appendTo(t, path, "x\n") },
			"it has 6 bytes, the journal ends at 4"},
		"cut": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 1)) },
			"it has 1 bytes, at least 2 were written"},
		"removed": {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
			"it has 0 bytes, at least 2 were written"},
		"edited": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("7\n8\n"), 0o644))
		}, "bytes 0 to 2 are not those that were written"},
		"without journal": {func(t *testing.T, path string) {
			require.NoError(t,
				os.Remove(journalOf(path)))
		},
			"it has 4 bytes and no journal"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.ndjson")
			requirePut(t, path, batch(0, "0"))
			requirePut(t, path, batch(1, "1"))
			c.change(t, path)
			_, err := put(t, path, batch(2, "2"))
			require.ErrorIs(t, err, host.ErrFailed)
			require.ErrorContains(t, err, path+" was altered by someone else: "+c.want)
		})
	}
}

func TestSinkComparesWithWhatWasCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	requirePut(t, path, batch(0, "0", "1"))
	_, err := plugintest.Write(t, file.Plugin(), "sink", config(path, ""),
		[]plugintest.TopicOffset{{Topic: "test", Offset: 5}}, batch(5, "5"))
	require.ErrorContains(t, err, "ends at offset 2 of test/0, but up to 5 was acknowledged")
	fresh := filepath.Join(t.TempDir(), "out.ndjson")
	errs, err := plugintest.Write(t, file.Plugin(), "sink", config(fresh, ""),
		[]plugintest.TopicOffset{{Topic: "test", Offset: 5}}, batch(5, "5"))
	require.NoError(t, err)
	require.Empty(t, errs)
	requireFile(t, fresh, "5\n")
}

func TestSinkJournalStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	p := plugintest.Start(t, ptr(file.Plugin()), nil)
	snk, err := p.Sink(t.Context(), host.SinkOptions{Part: "sink", Config: []byte(config(path, ""))})
	require.NoError(t, err)
	for i := range int64(2100) {
		_, err := snk.Write(t.Context(), batch(i, fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	info, err := os.Stat(journalOf(path))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200_000))
	requirePut(t, path, batch(2099, "2099", "2100"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 2101, strings.Count(string(got), "\n"))
}

func TestSinkSuite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	var values []string
	for i := range 50 {
		values = append(values, fmt.Sprintf(`{"n":%d}`, i))
	}
	plugintest.TestSink(t, plugintest.Sink{
		Common: plugintest.Common{
			Command: plugintest.Self(t, "plugin"), Part: "sink", Config: config(path, ""),
			BadConfig: config(path, `,"columns":["a"]`), BadPointer: "/columns",
		},
		Values: values, ExactlyOnce: true,
		Written: func(t *testing.T) []string {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
		},
		Reset: func(t *testing.T) {
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.RemoveAll(journalOf(path)))
		},
	})
}
