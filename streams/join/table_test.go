package join_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

// start runs stream + table -> out.
func start(t *testing.T, o join.Options, table topology.TableOptions) *streamstest.Driver {
	o.Join = func(rec *operator.Record, right any) error {
		if string(rec.Value) == "fail" {
			return fmt.Errorf("cannot take %v", right)
		}
		rec.SetValue(fmt.Append(nil, string(rec.Value), "|", right))
		return nil
	}
	b := topology.NewBuilder(topology.Options{App: "t",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("in", "in", topology.SourceOptions{})
	b.Table("rows", "rows", table)
	b.Join("j", "in", "rows", o)
	b.Sink("out", "j", "out", topology.SinkOptions{})
	d, err := streamstest.New(b, streamstest.Options{Partitions: map[string]int32{"rows": 4}})
	require.NoError(t, err)
	return d
}

// number decodes rows and counts how often it had to.
func number(calls *int) topology.TableOptions {
	return topology.TableOptions{Broadcast: true, Decode: func(_, v []byte) (any, error) {
		*calls++
		return strconv.Atoi(string(v))
	}}
}

func outputs(d *streamstest.Driver) string {
	var list []string
	for _, r := range d.Output("out") {
		list = append(list, string(r.Value))
	}
	return fmt.Sprint(list)
}

func TestRequiredSendsUnmatchedToDeadLetters(t *testing.T) {
	d := start(t, join.Options{Kind: join.Required}, number(new(int)))
	d.Send("rows", "a", "1", 0)
	d.Send("in", "a", "x", 1)
	d.Send("in", "b", "y", 2)
	d.Send("in", "a", "fail", 3)
	d.Send("in", "a", "", 4) // null value: nothing to join
	require.NoError(t, d.Run())
	require.Equal(t, "[x|1]", outputs(d))
	dead := d.Output("dlq")
	require.Len(t, dead, 2)
	class, _ := dead[0].Header(operator.HeaderDLQClass)
	why, _ := dead[0].Header(operator.HeaderDLQError)
	require.Equal(t, join.ClassNoMatch, string(class))
	require.Equal(t, `no row in table rows for key "b"`, string(why))
	why, _ = dead[1].Header(operator.HeaderDLQError)
	require.Equal(t, "cannot take 1", string(why))
}

// A broadcast table is looked up by any key, whatever partition its row is in.
func TestBroadcastTableByAnyKey(t *testing.T) {
	calls := 0
	d := start(t, join.Options{Key: func(rec *operator.Record) ([]byte, error) {
		if rec.Value[0] == '?' {
			return nil, fmt.Errorf("no key in %s", rec.Value)
		}
		return rec.Value, nil
	}}, number(&calls))
	for i := range 20 {
		d.Send("rows", fmt.Sprint("k", i), fmt.Sprint(i), 0)
	}
	for i := range 20 {
		d.Send("in", "same", fmt.Sprint("k", i), 1)
	}
	d.Send("in", "same", "?", 2)
	require.NoError(t, d.Run())
	require.Len(t, d.Output("out"), 20)
	require.Len(t, d.Output("dlq"), 1)
	require.Equal(t, 40, calls, "once when the row came, once when it was looked up")
	for range 5 {
		d.Send("in", "same", "k7", 3)
	}
	require.NoError(t, d.Run())
	require.Equal(t, 40, calls, "decoded rows are kept")
	d.Send("rows", "k7", "700", 0)
	require.NoError(t, d.Run())
	d.Send("in", "same", "k7", 4)
	require.NoError(t, d.Run())
	require.Equal(t, "k7|700", string(d.Output("out")[25].Value), "until the row changes")
}
