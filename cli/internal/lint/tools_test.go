package lint

import (
	"bytes"
	"go/format"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGofmtHasNothingToChange(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		formatted, err := format.Source(s.text)
		require.NoError(t, err, s.path)
		if !bytes.Equal(formatted, s.text) {
			findings = append(findings, s.path)
		}
	}
	report(t, "run gofmt -w on", findings)
}

// The tools run over the whole module, so -short leaves them to the full run.
func TestVetAndStaticcheckFindNothing(t *testing.T) {
	if testing.Short() {
		return
	}
	for _, args := range [][]string{
		{"vet", "./..."},
		{"tool", "staticcheck", "-checks", "inherit,-ST1000,-ST1003", "./..."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root(t)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %v:\n%s", args, out)
	}
}
