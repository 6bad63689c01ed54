package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/check"
)

// errorCode is what a code of an error or of a lint finding stands for.
type errorCode struct {
	Code string `json:"code"`
	// Exit is the exit code it comes with; 0 where it depends.
	Exit    int    `json:"exit,omitempty"`
	Meaning string `json:"meaning"`
}

// errorCodes are all codes of this program, by name; a test compares them with the source.
var errorCodes = []errorCode{
	{"BAD_ADDRESS", 2, "An address is not host:port."},
	{"BAD_BOOTSTRAP", 2, "--bootstrap is not a list of host:port."},
	{"BAD_COMPRESSION", 2, "The compression is not none, gzip, snappy, lz4 or zstd."},
	{"BAD_CONFIG", 2, "A topic config is not name=value, or the file of --config cannot be used."},
	{"BAD_FLAGS", 2, "Two flags that are given together exclude each other."},
	{"BAD_FORMAT", 2, "The format asked for with -o or --format does not exist."},
	{"BAD_HEADER", 2, "A header is not name=value."},
	{"BAD_INPUT", 2, "A line of the input cannot be read, most often because it is too long."},
	{"BAD_KIND", 2, "There is no such kind of plugin to begin with."},
	{"BAD_LEVEL", 2, "There is no such log level."},
	{"BAD_LOG_FORMAT", 2, "There is no such log format."},
	{"BAD_NAME", 2, "The name of the folder cannot be the name of a pipeline or plugin."},
	{"BAD_RANGE", 2, "--from or --to is not a position; consume --help lists the forms."},
	{"BAD_RECORD", 2, "A line of the input is not a record; those before it are written."},
	{"BAD_ROLES", 2, "The roles of --roles are none that a server can have here."},
	{"BAD_SETTINGS", 2, "A settings file or a MILLSTREAM_ variable has a key or value that is wrong."},
	{"BAD_SNAPSHOT", 2, "The file is no snapshot of state, damaged, of other partitions or too old."},
	{"BAD_VAR", 2, "A variable given with --var is not name=value."},
	{"BROKER_UNREACHABLE", 3, "Nothing that speaks the Kafka protocol answers at the address."},
	{"CANNOT_LISTEN", 3, "The address to serve at is taken or not one of this machine."},
	{"CANNOT_READ", 2, "A file or folder that was named cannot be read."},
	{"CANNOT_SHOW", 1, "Records of the node cannot be shown, or the filter is no expression."},
	{"CANNOT_START", 3, "The broker does not start: its data, configs or disk prevent it."},
	{"CANNOT_WRITE", 2, "A file that was named cannot be written."},
	{"CONCURRENT_APPLY", 5, "Somebody else applied a revision of the same pipeline first."},
	{"DATA_DIR_LOCKED", 3, "Another process, whose id is given, serves the data directory."},
	{"DUPLICATE_PIPELINE", 2, "Two of the files name their pipeline alike."},
	{"FAILED", 1, "A failure that has no code of its own; the text has all there is to know."},
	{"FILE_EXISTS", 5, "The file to write exists; it was left as it is."},
	{"GO_MOD_TIDY", 3, "The go command cannot find what the plugin's module needs."},
	{"GROUP_NOT_EMPTY", 5, "The consumer group has live members; stop them first."},
	{"INTERRUPTED", 130, "The command was stopped before its work was done."},
	{"NAME_TAKEN", 5, "A pipeline or replay of that name exists."},
	{"NOTHING_TO_DO", 2, "No change was asked for."},
	{"NOT_A_REPLAY", 2, "The pipeline is not a replay of another one."},
	{"NOT_CONFIRMED", 2, "It cannot be undone and nobody said yes; scripts add --yes."},
	{"NO_AUTHENTICATION", 2, "An address that other machines reach would serve everybody."},
	{"NO_DATA_DIR", 2, "The folder to check is no data directory of a broker."},
	{"NO_STATE", 5, "The pipeline has stored nothing that a snapshot could be taken of."},
	{"NO_TOOLCHAIN", 3, "The go command is not on the PATH; plugins in source need it."},
	{"NO_WORKER", 3, "No process that runs pipelines took the revision, or showed records, in time."},
	{"OTHER_STATE", 5, "What a snapshot has stored means something else to the steps of the pipeline."},
	{"PIPELINE_FAILED", 1, "The pipeline stopped at an error; its position is kept."},
	{"PLUGIN_BROKEN", 1, "The plugin compiles but does not answer as a plugin does."},
	{"PLUGIN_BUILD", 0, "The plugin cannot be built; 2 for errors in its source, else 3."},
	{"REPLAY_NOT_DONE", 5, "A replay can be verified once it is done."},
	{"REVISION_INVALID", 2, "The applied revision does not compile on this machine."},
	{"SDK_UNKNOWN", 2, "There is no Go module here that provides the plugin SDK."},
	{"STALE_PLAN", 5, "What would change is not what the plan of that hash showed."},
	{"STATE_LOSS", 5, "The change cannot use the pipeline's stored state."},
	{"STATE_NOT_ANSWERED", 1, "The worker of a pipeline refused to show its state."},
	{"STATE_NOT_READY", 3, "The rows asked for cannot be looked at now, or not as asked for."},
	{"TIMEOUT", 3, "No answer came in time."},
	{"UNKNOWN_CHECK", 2, "doctor has no check of that name."},
	{"UNKNOWN_CODE", 2, "There is no error or finding of that code."},
	{"UNKNOWN_COMMAND", 2, "There is no such command."},
	{"UNKNOWN_FLAG", 2, "The command has no such flag."},
	{"UNKNOWN_GROUP", 1, "There is no consumer group of that name."},
	{"UNKNOWN_NODE", 1, "The pipeline has no source, step or sink of that id."},
	{"UNKNOWN_PARTITION", 2, "The topic has no partition of that number."},
	{"UNKNOWN_PIPELINE", 1, "No pipeline of that name was applied."},
	{"UNKNOWN_STEP", 1, "The pipeline has no step or table of that name that keeps rows."},
	{"UNKNOWN_TOPIC", 1, "There is no topic of that name."},
	{"USAGE", 2, "The command line lacks an argument or has one too many."},
	{"WORKER_FAILED", 1, "The part of the process that runs pipelines ended by an error."},
}

func newHelpErrorsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "errors [CODE]",
		Short: "Explain a code of an error or of a lint finding, or list all of them",
		Args:  cobra.MaximumNArgs(1),
		Example: "  millstream help errors STALE_PLAN\n" +
			"  millstream help errors -o json",
		// The help command does without settings, which this one needs for -o.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return output.List(a.printer, allCodes(), codeColumns)
			}
			found, err := explainCode(args[0])
			if err != nil {
				return err
			}
			return output.One(a.printer, found, func(b *strings.Builder) {
				fmt.Fprintf(b, "%s\n  %s\n", found.Code, found.Meaning)
				if found.Exit != 0 {
					fmt.Fprintf(b, "  exit code %d\n", found.Exit)
				}
			})
		},
	}
}

var codeColumns = []output.Column[errorCode]{
	{Title: "CODE", Cell: func(c errorCode) string { return c.Code }},
	{Title: "EXIT", Cell: func(c errorCode) string {
		if c.Exit == 0 {
			return ""
		}
		return fmt.Sprint(c.Exit)
	}},
	{Title: "MEANING", Cell: func(c errorCode) string { return c.Meaning }},
}

// allCodes are this program's errors and findings; those of the Kafka protocol can be asked for.
func allCodes() []errorCode {
	all := slices.Clone(errorCodes)
	for _, doc := range check.Codes() {
		all = append(all, errorCode{Code: string(doc.Code), Meaning: doc.Meaning})
	}
	return all
}

func explainCode(code string) (errorCode, error) {
	code = strings.ToUpper(strings.TrimSpace(code))
	var names []string
	for _, c := range allCodes() {
		if c.Code == code {
			return c, nil
		}
		names = append(names, c.Code)
	}
	if e := kafkaError(code); e != nil {
		return errorCode{Code: code, Exit: exitOf(e),
			Meaning: "The broker says: " + e.Description}, nil
	}
	e := output.Usage("UNKNOWN_CODE", fmt.Sprintf("there is no code %q", code))
	if best := nearest(code, names); best != "" {
		return errorCode{}, e.WithDo(fmt.Sprintf("did you mean %s?", best))
	}
	return errorCode{}, e.WithDo("millstream help errors lists all")
}

// lastKafkaCode is above every error code of the protocol.
const lastKafkaCode = 200

// kafkaError finds an error of the protocol by its name.
func kafkaError(name string) *kerr.Error {
	for number := int16(1); number < lastKafkaCode; number++ {
		e := kerr.TypedErrorForCode(number)
		if e != nil && e.Message == name {
			return e
		}
	}
	return nil
}
