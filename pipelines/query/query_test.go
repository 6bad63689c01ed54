package query

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// none is a source without pipelines.
type none struct{}

func (none) Stores(string) ([]Store, bool) { return nil, false }

// empty is a source with a pipeline that keeps nothing.
type empty struct{}

func (empty) Stores(name string) ([]Store, bool) { return nil, name == "p" }

func answer(t *testing.T, opts HandlerOptions, path, from string, header ...string) (int, Error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = from
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler(opts).ServeHTTP(w, r)
	var body struct{ Error Error }
	if w.Code != http.StatusOK {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	}
	return w.Code, body.Error
}

const here = "127.0.0.1:5"

func TestStateIsForThisMachineUnlessOpen(t *testing.T) {
	for from, want := range map[string]int{"127.0.0.1:5": 404, "[::1]:5": 404, "pipe": 404,
		"10.0.0.9:5": 403, "[2001:db8::1]:5": 403} {
		code, _ := answer(t, HandlerOptions{Source: none{}}, Root+"p/state", from)
		require.Equal(t, want, code, from)
		code, _ = answer(t, HandlerOptions{Source: none{}, Open: true}, Root+"p/state", from)
		require.Equal(t, 404, code, from)
	}
	code, e := answer(t, HandlerOptions{Source: none{}}, Root+"p/state", here,
		"Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, code, "a page of a browser")
	require.Equal(t, CodeForbidden, e.Code)
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	for query, want := range map[string]string{
		"keys=x":        `there is no parameter "keys"`,
		"from=now":      "from=now is not a time",
		"from=9&to=9":   "the time from 9 to 9 holds nothing",
		"limit=-1":      "limit=-1 is not a number from 0 on",
		"partition=x":   "partition=x is not a number",
		"stale=perhaps": "stale=perhaps is not true or false",
		"max_lag=1e9":   "max_lag=1e9 is not a number",
	} {
		code, e := answer(t, HandlerOptions{Source: empty{}}, Root+"p/state/n?"+query, here)
		require.Equal(t, 400, code, query)
		require.Contains(t, e.What, want)
	}
	code, e := answer(t, HandlerOptions{Source: empty{}}, Root+"p/state/n/export?key=a", here)
	require.Equal(t, 400, code)
	require.Contains(t, e.What, "leave key and limit out")
}

func TestUnknownNamesAreNamed(t *testing.T) {
	_, e := answer(t, HandlerOptions{Source: empty{}}, Root+"q/state/n", here)
	require.Equal(t, CodeUnknownPipeline, e.Code)
	_, e = answer(t, HandlerOptions{Source: empty{}}, Root+"p/state/n", here)
	require.Equal(t, CodeUnknownNode, e.Code)
	require.Equal(t, "no step or table of it keeps any", e.Why)
}

// Keys are given as JSON, as text, or as base64.
func TestKeysAsGivenAndAsStored(t *testing.T) {
	for _, tc := range []struct {
		format expression.Format
		given  string
		want   []string
	}{
		{expression.FormatString, "ZRH", []string{"ZRH"}},
		{expression.FormatString, `"ZRH"`, []string{"ZRH"}},
		{expression.FormatString, "42", []string{"42"}},
		{expression.FormatJSON, "ZRH", []string{`"ZRH"`}},
		{expression.FormatJSON, `"a<b"`, []string{`"a<b"`}},
		{expression.FormatJSON, `"\u00fc"`, []string{`"\u00fc"`, `"ü"`}},
		{expression.FormatJSON, `{"a": 1}`, []string{`{"a": 1}`, `{"a":1}`}},
		{expression.FormatJSON, "42", []string{"42"}},
		{expression.FormatBytes, `{"base64":"AP8="}`, []string{"\x00\xff"}},
	} {
		var got []string
		for _, k := range keysOf(tc.format, tc.given) {
			got = append(got, string(k))
		}
		require.Equal(t, tc.want, got, tc.given)
	}
	require.Equal(t, `{"base64":"AP8="}`, string(jsonOf(expression.FormatJSON, []byte("\x00\xff"))))
	require.Equal(t, `"42"`, string(jsonOf(expression.FormatString, []byte("42"))))
	require.Equal(t, `42`, string(jsonOf(expression.FormatJSON, []byte("42"))))
	require.Equal(t, `{"base64":"NDI="}`, string(jsonOf(expression.FormatBytes, []byte("42"))))
}

// Ranges are half-open; ends of inclusive windows belong to them.
func TestRowsReachIntoATime(t *testing.T) {
	r := Request{From: 10, To: 20}
	for _, tc := range []struct {
		kept operator.Kept
		want bool
	}{
		{operator.Kept{Timestamp: 10}, true},
		{operator.Kept{Timestamp: 20}, false},
		{operator.Kept{Timestamp: operator.NoTime}, true},
		{operator.Kept{Window: operator.Window{Start: 0, End: 10}}, false},
		{operator.Kept{Window: operator.Window{Start: 0, End: 11}}, true},
		{operator.Kept{Window: operator.Window{Start: 19, End: 30}}, true},
		{operator.Kept{Window: operator.Window{Start: 20, End: 30}}, false},
		{operator.Kept{Window: operator.Window{Start: 5, End: 10, Inclusive: true}}, true},
	} {
		require.Equal(t, tc.want, r.inTime(tc.kept), "%+v", tc.kept)
	}
}

// fakeWorker answers with fixed bodies by path and partitions asked for.
func fakeWorker(t *testing.T, answers func(path string, q url.Values) (int, string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answers(r.URL.Path, r.URL.Query())
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestClientAsksEachWorkerForItsTasks: partition 1 runs in another worker than the one asked first.
func TestClientAsksEachWorkerForItsTasks(t *testing.T) {
	other := fakeWorker(t, func(_ string, q url.Values) (int, string) {
		if fmt.Sprint(q["partition"]) != "[1]" || q.Get("key") != "k" || q.Get("stale") != "true" {
			return 400, `{"error":{"code":"BAD_REQUEST","what":"not as expected"}}`
		}
		return 200, `{"rows":[{"partition":1,"key":"k"}],"partitions":[{"task":"p.n.1","partition":1}]}`
	})
	key := "k"
	asked := Request{Pipeline: "p", Node: "n", Key: &key, Stale: true, MaxLag: -1, From: -1 << 63,
		To: 1<<63 - 1}
	for name, body := range map[string]string{
		"some are here": `{"rows":[{"partition":0,"key":"j"}],"partitions":[{"task":"p.n.0"}],` +
			`"elsewhere":[{"partition":1,"address":"` + other + `"}]}`,
		"none is here": `{"error":{"code":"ELSEWHERE","what":"x","elsewhere":[{"partition":1,"address":"` +
			other + `"}]}}`,
	} {
		first := fakeWorker(t, func(string, url.Values) (int, string) {
			if strings.Contains(body, "error") {
				return http.StatusMisdirectedRequest, body
			}
			return 200, body
		})
		got, err := (&Client{Address: first}).Ask(t.Context(), asked)
		require.NoError(t, err, name)
		require.Equal(t, `"k"`, string(got.Rows[len(got.Rows)-1].Key), name)
		require.Empty(t, got.Elsewhere, name)
	}
}

// TestExportThatIsCutIsNoExport: the last line has the number of rows, and must come.
func TestExportThatIsCutIsNoExport(t *testing.T) {
	row := `{"type":"row","partition":0,"key":"k"}` + "\n"
	for body, want := range map[string]string{
		row:                                    "cut off before its end after 1 rows",
		row + `{"type":"end","rows":2}` + "\n": "1 of 2 rows came",
		row + `{"type":"error","error":{"code":"FAILED","what":"disk on fire"}}` + "\n": "disk on fire",
	} {
		address := fakeWorker(t, func(string, url.Values) (int, string) { return 200, body })
		var out bytes.Buffer
		_, err := (&Client{Address: address}).Export(t.Context(), Request{Pipeline: "p", Node: "n"}, &out)
		require.ErrorContains(t, err, want)
	}
	address := fakeWorker(t, func(string, url.Values) (int, string) {
		return 200, row + `{"type":"end","rows":1}` + "\n"
	})
	var out bytes.Buffer
	n, err := (&Client{Address: address}).Export(t.Context(), Request{Pipeline: "p", Node: "n"}, &out)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, row+`{"type":"end","rows":1}`+"\n", out.String())
}

// exporter writes so much of a snapshot and then fails.
type exporter struct {
	none
	size int
}

func (e exporter) ExportState(_ context.Context, _ string, w io.Writer) error {
	if _, err := w.Write(make([]byte, e.size)); err != nil {
		return err
	}
	return fmt.Errorf("export p: %w", task.ErrStateLost)
}

// TestSnapshotThatFailsIsNoAnswer: a small one says why; one of which a part is sent has no end
// that a client takes for one.
func TestSnapshotThatFailsIsNoAnswer(t *testing.T) {
	code, e := answer(t, HandlerOptions{Source: exporter{size: 10}}, Root+"p/snapshot", here)
	require.Equal(t, http.StatusConflict, code)
	require.Equal(t, CodeNoState, e.Code)

	server := httptest.NewServer(Handler(HandlerOptions{Source: exporter{size: 100 << 10}}))
	defer server.Close()
	got, err := http.Get(server.URL + Root + "p/snapshot")
	require.NoError(t, err)
	defer got.Body.Close()
	_, err = io.ReadAll(got.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
