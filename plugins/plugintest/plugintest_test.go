//go:build unix

package plugintest_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/plugintest"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// build compiles a testdata plugin.
func build(t *testing.T, name string) host.Command {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("go", "build", "-o", bin, "./testdata/"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	return host.Command{Path: bin}
}

func TestOperatorSuite(t *testing.T) {
	command := build(t, "score")
	command.Env = []string{"NOISE=1"} // it prints before and after Serve
	plugintest.TestOperator(t, plugintest.Operator{
		Common: plugintest.Common{
			Command: command, Config: `{"threshold":0.5}`,
			BadConfig: `{"threshold":1.5}`, BadPointer: "/threshold",
		},
		Input: []string{
			`{"score":0.1}`, `{"score":0.6}`, `{}`, `not json`, `{"score":1}`, `{"score":"x"}`, `[]`,
			`{"score":0.5}`, `{"score":0.51}`, ``,
		},
	})
}

func TestRunIsForTableTests(t *testing.T) {
	type config struct {
		Suffix string `json:"suffix" default:"!"`
	}
	h := plugintest.Run(t, sdk.NewFlatMap("shout", func(_ sdk.Ctx, c config, r *sdk.Record,
		emit sdk.Emit) error {
		if len(r.Value()) == 0 {
			return errors.New("nothing to shout")
		}
		r.SetValue(append([]byte(string(r.Value())), c.Suffix...))
		emit(r)
		emit(r)
		return nil
	}), `{"suffix":"?"}`)
	h.Push("a", "b").Want("a?", "a?", "b?", "b?")
	h.Push("", "c").WantErrors("nothing to shout").Want("c?", "c?")
	h.Want()
}
