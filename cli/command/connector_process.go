package command

import (
	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// connectorProcess is the hidden command by which the binary starts itself as a connector's
// process.
const connectorProcess = "connector-process"

func newConnectorProcessCommand() *cobra.Command {
	return &cobra.Command{
		Use:    connectorProcess + " NAME",
		Short:  "Serve a built-in connector to the process that started this one",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		Example: "  millstream " + connectorProcess + " file\n" +
			"  millstream " + connectorProcess + " generate",
		Run: func(_ *cobra.Command, args []string) {
			sdk.ServeBuiltin(args[0], connectors.Builtin()...)
		},
	}
}

// connectorCommand says how to start a connector's process.
func connectorCommand(name string) (host.Command, error) {
	return host.Self(connectorProcess, name)
}

// IsConnectorProcess tells whether these arguments ask for a connector's process. A test binary
// that runs pipelines hands them to Main first, because it is started again as that process.
func IsConnectorProcess(args []string) bool {
	return len(args) > 1 && args[1] == connectorProcess
}
