package command

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/millstream-io/millstream/cli/output"
)

// confirm asks before something that cannot be undone. Where nobody can answer, --yes is required:
// a script must say that it means it.
func (a *app) confirm(yes bool, action string) error {
	if yes {
		return nil
	}
	if !output.IsTerminal(a.streams.In) {
		return output.Usage("NOT_CONFIRMED", "this would "+action).
			WithWhy("there is no terminal to ask on").WithDo("add --yes")
	}
	fmt.Fprintf(a.streams.Err, "This will %s. Continue? [y/N] ", action)
	answer, err := bufio.NewReader(a.streams.In).ReadString('\n')
	if err != nil && answer == "" {
		return output.Usage("NOT_CONFIRMED", "no answer was given")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return output.Usage("NOT_CONFIRMED", "nothing was changed")
}
