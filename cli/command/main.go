package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
)

// Streams are the standard streams of a run; tests pass buffers.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of this process and returns its exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, args, Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// Run runs one command line; it is Main with everything of the process passed in.
func Run(ctx context.Context, args []string, streams Streams) int {
	app := newApp(streams)
	root := newRootCommand(app)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return output.ExitOK
	}
	if isBrokenPipe(err) {
		return output.ExitOK // the reader of our output has seen enough
	}
	exit := output.ExitOK
	for _, one := range flatten(err) {
		explained := explain(root, one)
		if explained.Code != silentCode {
			explained.Render(streams.Err)
		}
		exit = max(exit, explained.Exit)
	}
	return exit
}

// flatten gives the errors of errors.Join one by one: a command over several things tells what
// became of each.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}

// silentCode marks an error whose story has been told on standard output already.
const silentCode = "REPORTED"

// reported ends a command with an exit code after it has printed its own findings.
func reported(exit int) error {
	return &output.Error{Code: silentCode, What: "findings were printed", Exit: exit}
}

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// explain recognises cobra's own errors, which are all mistakes of usage.
func explain(root *cobra.Command, err error) *output.Error {
	var e *output.Error
	if errors.As(err, &e) {
		return e
	}
	for _, sign := range []string{"unknown command", "unknown flag", "unknown shorthand flag",
		"flag needs an argument", "invalid argument", "required flag", "accepts ", "requires "} {
		if strings.Contains(err.Error(), sign) {
			return output.Usage("USAGE", err.Error()).WithDo("see: " + root.Name() + " --help")
		}
	}
	return explainBroker(err)
}
