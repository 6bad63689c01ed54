package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
)

// app is what all commands of one run share.
type app struct {
	streams  Streams
	printer  *output.Printer
	settings *settings
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
		// An unknown command is met here, where the nearest one can be named.
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0], namesOf(cmd.Commands()))
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
	root.SetIn(a.streams.In)
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.Err)
	root.InitDefaultCompletionCmd() // it remembers where to write
	root.InitDefaultHelpCmd()
	for _, sub := range root.Commands() {
		switch sub.Name() {
		case "help":
			sub.AddCommand(newHelpErrorsCommand(a))
			sub.Example = "  millstream help consume\n  millstream help topic create"
			sub.Run, sub.RunE = nil, func(_ *cobra.Command, args []string) error {
				return helpFor(root, args)
			}
		case "completion":
			addCompletionExamples(sub)
			needsSubcommand(sub)
		default:
			if sub.HasSubCommands() {
				needsSubcommand(sub)
			}
		}
	}
	a.addCompletions(root)
	return root
}

// mustFind gives the command of a path such as "topic ls".
func mustFind(root *cobra.Command, path string) *cobra.Command {
	cmd, rest, err := root.Find(strings.Fields(path))
	if err != nil || len(rest) > 0 {
		panic("invariant: there is a command " + path)
	}
	return cmd
}

// helpFor prints the help of the command that args name; cobra's own takes any name for success.
func helpFor(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return unknownCommand(cmd, rest[0], namesOf(cmd.Commands()))
	}
	return cmd.Help()
}

// addCompletionExamples gives cobra's own commands what every leaf of the tree has.
func addCompletionExamples(completion *cobra.Command) {
	for _, shell := range completion.Commands() {
		shell.Example = "  millstream completion " + shell.Name() + "\n" +
			"  millstream completion " + shell.Name() + " --no-descriptions"
	}
}

// namesOf lists the commands people see.
func namesOf(commands []*cobra.Command) []string {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// prepare resolves the global settings once flags are parsed.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := a.settings.load(cmd); err != nil {
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
