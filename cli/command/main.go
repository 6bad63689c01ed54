package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
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
	used, err := root.ExecuteContextC(ctx)
	if err == nil || isBrokenPipe(err) { // the reader of our output has seen enough
		return output.ExitOK
	}
	exit := output.ExitOK
	for _, one := range flatten(err) {
		explained := explain(used, one)
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

// explain puts any error into users' words. What is not known as an error of ours may be one of
// cobra's, which are all mistakes of usage, or one of the broker's.
func explain(cmd *cobra.Command, err error) *output.Error {
	var e *output.Error
	if errors.As(err, &e) {
		return e
	}
	if e := explainUsage(cmd, err); e != nil {
		return e
	}
	return explainBroker(err)
}
