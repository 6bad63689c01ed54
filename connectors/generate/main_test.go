package generate_test

import (
	"os"
	"testing"

	"github.com/millstream-io/millstream/connectors/generate"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// TestMain serves the connector when a test started this binary as a plugin.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "plugin" {
		sdk.ServeBuiltin("generate", generate.Plugin())
	}
	os.Exit(m.Run())
}
