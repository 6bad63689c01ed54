package host_test

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/sdk"
)

var echoPlugin = sdk.Plugin{Name: "echo", Parts: []sdk.Part{
	sdk.NewMap("echo", func(_ sdk.Ctx, _ struct{}, r *sdk.Record) error {
		r.SetTimestamp(r.Timestamp().Add(time.Millisecond))
		return nil
	}),
}}

var built struct {
	sync.Mutex
	dir  string
	bins map[string]string
}

// buildPlugin compiles testdata/name once for all tests.
func buildPlugin(t testing.TB, name string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if bin, ok := built.bins[name]; ok {
		return bin
	}
	bin := filepath.Join(built.dir, name)
	out, err := exec.Command("go", "build", "-o", bin, "./testdata/"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	built.bins[name] = bin
	return bin
}
