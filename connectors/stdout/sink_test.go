package stdout_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/plugintest"
)

func printed(t *testing.T, config string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := host.Start(t.Context(), host.Options{
		Name: "stdout", Command: plugintest.Self(t, "plugin"), Output: &out,
	})
	require.NoError(t, err)
	defer p.Close()
	snk, err := p.Sink(t.Context(), host.SinkOptions{Part: "sink", Config: []byte(config)})
	require.NoError(t, err)
	records := []plugintest.Record{
		plugintest.NewRecord("k1", `{"a":"<b>"}`), plugintest.NewRecord("", "plain <text>"),
		plugintest.NewRecord("", "{\"a\":\n1}"), plugintest.NewRecord("", "\xff\xfe"),
		plugintest.NewRecord("k2", ""),
	}
	records[0].Timestamp = 1_700_000_000_123
	for i := range records {
		records[i].Offset = int64(i)
		if i > 0 {
			records[i].Timestamp = -1
		}
	}
	records[4].Value = nil
	errs, err := snk.Write(t.Context(), records)
	require.NoError(t, err)
	require.Empty(t, errs)
	require.NoError(t, snk.Close())
	return out.String()
}

func TestSinkPrintsValues(t *testing.T) {
	require.Equal(t, "{\"a\":\"<b>\"}\n\"plain <text>\"\n{\"a\":1}\n\"//4=\"\nnull\n", printed(t, `{}`))
}

func TestSinkPrintsRecords(t *testing.T) {
	require.Equal(t,
		`{"topic":"test","partition":0,"offset":0,"timestamp":"2023-11-14T22:13:20.123Z",`+
			`"key":"k1","value":{"a":"<b>"}}
{"topic":"test","partition":0,"offset":1,"key":null,"value":"plain <text>"}
{"topic":"test","partition":0,"offset":2,"key":null,"value":{"a":1}}
{"topic":"test","partition":0,"offset":3,"key":null,"value":"//4="}
{"topic":"test","partition":0,"offset":4,"key":"k2","value":null}
`, printed(t, `{"format":"record"}`))
}

func TestSinkSuite(t *testing.T) {
	plugintest.TestSink(t, plugintest.Sink{
		Common: plugintest.Common{
			Command: plugintest.Self(t, "plugin"), Part: "sink", Config: `{}`,
			BadConfig: `{"format":"xml"}`, BadPointer: "/format",
		},
		Values: []string{`{"a":1}`, `2`, `"3"`, `4`, `5`, `6`, `7`, `8`, `9`, `10`},
		Reset:  func(*testing.T) {},
	})
}
