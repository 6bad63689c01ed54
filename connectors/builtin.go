package connectors

import (
	"github.com/millstream-io/millstream/connectors/file"
	"github.com/millstream-io/millstream/connectors/generate"
	"github.com/millstream-io/millstream/connectors/stdout"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// Builtin returns the connectors compiled into the binary, by name.
func Builtin() []sdk.Plugin {
	return []sdk.Plugin{file.Plugin(), generate.Plugin(), stdout.Plugin()}
}
