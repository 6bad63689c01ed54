// Command alarm is a plugin that tells when a key was quiet for 10 ms of event time, or, with wall,
// 20 ms after a record by the machine's clock.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Config says which clock, and what else to do.
type Config struct {
	// Die names a file: when a record says "die" and the file is not there, the process is killed
	// once, behind that record's timer.
	Die string `json:"die" doc:"a file that, once there, says that it was done"`
}

func main() {
	quiet := sdk.NewTimed("quiet", sdk.Timed[Config]{Each: each, OnTimer: onTimer})
	wall := sdk.NewTimed("wall", sdk.Timed[Config]{Each: eachWall, OnTimer: onTimer})
	sdk.Serve(sdk.Plugin{Name: "alarm", Parts: []sdk.Part{quiet, wall.WithWallTimers()}})
}

func each(t sdk.TimerCtx, c Config, r *sdk.Record, _ sdk.Emit) error {
	err := t.SetTimer("quiet", r.Timestamp().Add(10*time.Millisecond), r.Value())
	if string(r.Value()) == "die" {
		if file, err := os.OpenFile(c.Die, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			_ = file.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return err
}

func eachWall(t sdk.TimerCtx, _ Config, r *sdk.Record, _ sdk.Emit) error {
	return t.SetWallTimer("soon", time.Now().Add(20*time.Millisecond), r.Value())
}

func onTimer(_ sdk.TimerCtx, _ Config, timer sdk.Timer, emit sdk.Emit) error {
	at := timer.At.UnixMilli()
	if timer.Wall {
		at = 0
	}
	emit(sdk.NewRecord(timer.Key, fmt.Appendf(nil, "%s@%d", timer.Data, at)))
	return nil
}
