// Command misbehave is a plugin that does to a record what its configuration says.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Config says what to do, and to which records.
type Config struct {
	Do   string `json:"do" doc:"tag, panic, kill, hang, print, fail, flaky, give-up, earlier or ahead"`
	On   string `json:"on" doc:"a text in the value of the records concerned; none is all of them"`
	Once string `json:"once" doc:"a file that, once there, says that it was done"`
}

func main() { sdk.Map("misbehave", process) }

func process(_ sdk.Ctx, c Config, r *sdk.Record) error {
	if strings.Contains(string(r.Value()), c.On) && c.first() {
		switch c.Do {
		case "panic":
			panic("as told")
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "hang":
			select {}
		case "print":
			fmt.Println("hello from the plugin")
			fmt.Fprintln(os.Stderr, "and on the other stream")
		case "fail":
			return errors.New("cannot take it")
		case "flaky":
			return sdk.Retryable(errors.New("not just now"))
		case "give-up":
			return sdk.Fatal(errors.New("gives up"))
		case "earlier":
			r.SetTimestamp(r.Timestamp().Add(-time.Second))
		case "ahead":
			r.SetTimestamp(r.Timestamp().Add(24 * time.Hour))
		}
	}
	return r.Set("tagged", true)
}

// first tells whether it has to be done, and notes that it was.
func (c Config) first() bool {
	if c.Once == "" {
		return true
	}
	file, err := os.OpenFile(c.Once, os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false
	}
	return file.Close() == nil
}
