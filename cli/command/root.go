package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/millstream-io/millstream/cli/output"
)

// app is what all commands of one run share.
type app struct {
	streams  Streams
	printer  *output.Printer
	settings *viper.Viper
}

func newApp(streams Streams) *app {
	return &app{
		streams:  streams,
		printer:  output.NewPrinter(streams.Out, streams.Err),
		settings: newSettings(),
	}
}

// defaultBootstrap is where a client command looks for a broker.
const defaultBootstrap = "127.0.0.1:9092"

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "millstream",
		Short: "A Kafka-compatible log with pipelines, operators and connectors in one binary",
		Long: `Millstream keeps streams in a partitioned log that every Kafka client can use, and processes
them with pipelines written in YAML, operators written in Go, and connectors.

Start with:  millstream dev examples/flights`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.prepare(cmd)
		},
	}
	flags := root.PersistentFlags()
	flags.StringP("output", "o", string(output.Table), "format of data: table, json, ndjson, yaml")
	flags.Bool("no-headers", false, "leave out the header line of tables")
	flags.BoolP("quiet", "q", false, "print no notes, only data and errors")
	flags.String("bootstrap", defaultBootstrap,
		"host:port of a broker (also MILLSTREAM_BOOTSTRAP or KAFKA_BROKERS)")
	root.AddCommand(
		newDevCommand(a), newServerCommand(a),
		newTopicCommand(a), newProduceCommand(a), newConsumeCommand(a), newGroupCommand(a),
		newPipelineCommand(a), newReplayCommand(a), newPluginCommand(a),
		newBenchCommand(a), newDoctorCommand(a), newVersionCommand(a),
		newConnectorProcessCommand(),
	)
	root.InitDefaultCompletionCmd()
	return root
}

// prepare resolves the global settings once flags are parsed.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := loadSettings(a.settings, cmd); err != nil {
		return err
	}
	format, err := output.ParseFormat(a.settings.GetString("output"))
	if err != nil {
		return err
	}
	a.printer.Format = format
	a.printer.NoHeaders = a.settings.GetBool("no-headers")
	a.printer.Quiet = a.settings.GetBool("quiet")
	return nil
}
