package command

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millstream-io/millstream/cli/output"
)

// usageSigns begin the errors of cobra and pflag that have no type of their own.
var usageSigns = []string{"flag needs an argument", "required flag",
	"accepts ", "requires ", "unknown shorthand", "bad flag syntax", "unknown help topic"}

// extraArgument is what cobra says of an argument where none is taken.
var extraArgument = regexp.MustCompile(`^unknown command "(.*)" for "`)

// explainUsage recognises mistakes in the command line; nil for any other error.
func explainUsage(cmd *cobra.Command, err error) *output.Error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return unknownFlag(cmd, unknown)
	}
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	var needs *pflag.ValueRequiredError
	if errors.As(err, &invalid) || errors.As(err, &syntax) || errors.As(err, &needs) {
		return output.Usage("USAGE", err.Error()).WithDo(usageOf(cmd))
	}
	if m := extraArgument.FindStringSubmatch(err.Error()); m != nil {
		return output.Usage("USAGE", fmt.Sprintf("%s takes no argument, but got %q",
			cmd.CommandPath(), m[1])).WithDo(usageOf(cmd))
	}
	for _, sign := range usageSigns {
		if strings.HasPrefix(err.Error(), sign) {
			return output.Usage("USAGE", err.Error()).WithDo(usageOf(cmd))
		}
	}
	return nil
}

// usageOf is the form of a command and its first example.
func usageOf(cmd *cobra.Command) string {
	text := "usage: " + cmd.UseLine()
	if example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n"); example != "" {
		text += "\nsuch as: " + example
	}
	return text + "\nall of it: " + cmd.CommandPath() + " --help"
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) *output.Error {
	e := output.Usage("UNKNOWN_FLAG", fmt.Sprintf("%s has no flag %s", cmd.CommandPath(),
		flagAsWritten(unknown)))
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if best := nearest(unknown.GetSpecifiedName(), names); best != "" &&
		unknown.GetSpecifiedShortnames() == "" {
		return e.WithDo(fmt.Sprintf("did you mean --%s?", best))
	}
	return e.WithDo(usageOf(cmd))
}

func flagAsWritten(unknown *pflag.NotExistError) string {
	if unknown.GetSpecifiedShortnames() != "" {
		return "-" + unknown.GetSpecifiedName()
	}
	return "--" + unknown.GetSpecifiedName()
}

// needsSubcommand makes a command that only holds others refuse to be run without one of them.
func needsSubcommand(group *cobra.Command) {
	group.Args = cobra.ArbitraryArgs
	group.RunE = func(cmd *cobra.Command, args []string) error {
		names := namesOf(cmd.Commands())
		if len(args) == 0 {
			return output.Usage("USAGE", cmd.CommandPath()+" needs a subcommand").
				WithDo("one of: " + strings.Join(names, ", ") + "\nsuch as: " +
					firstExample(cmd.Commands()))
		}
		return unknownCommand(cmd, args[0], names)
	}
}

func unknownCommand(cmd *cobra.Command, name string, known []string) error {
	e := output.Usage("UNKNOWN_COMMAND",
		fmt.Sprintf("%s has no command %q", cmd.CommandPath(), name))
	if best := nearest(name, known); best != "" {
		return e.WithDo(fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+best))
	}
	return e.WithDo("one of: " + strings.Join(known, ", "))
}

func firstExample(commands []*cobra.Command) string {
	example, _, _ := strings.Cut(strings.TrimSpace(commands[0].Example), "\n")
	return example
}

// Parse tells which command a command line names, such as "millstream topic ls", and whether its
// flags and arguments are ones that command takes. Nothing is run. Tests of notes and examples use
// it.
func Parse(args []string) (path string, err error) {
	streams := Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	cmd, rest, err := newRootCommand(newApp(streams)).Find(args)
	if err != nil {
		return "", err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return "", err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 && cmd.Name() != "help" {
		return "", unknownCommand(cmd, cmd.Flags().Arg(0), namesOf(cmd.Commands()))
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return "", err
	}
	return cmd.CommandPath(), cmd.ValidateArgs(cmd.Flags().Args())
}
