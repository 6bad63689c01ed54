package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/vfs"
)

// checkLogName is the check that reads a data directory. It is of a broker that is stopped, while
// the other checks want one that runs.
const checkLogName = "log"

// logVerdict is the result of the check for machines.
type logVerdict struct {
	DataDir  string              `json:"data_dir"`
	Read     core.CheckSummary   `json:"read"`
	Findings []core.CheckFinding `json:"findings"`
}

// doctorLog checks all files of a data directory, and changes none.
func (a *app) doctorLog(ctx context.Context, dir string) error {
	v := logVerdict{DataDir: dir, Findings: []core.CheckFinding{}}
	var err error
	v.Read, err = core.Check(ctx, core.CheckOptions{
		DataDir: dir, Report: func(f core.CheckFinding) { v.Findings = append(v.Findings, f) },
	})
	locked, isLocked := errors.AsType[*vfs.LockedError](err)
	switch {
	case isLocked:
		return output.Environment("DATA_DIR_LOCKED",
			fmt.Sprintf("%s is in use by process %d", dir, locked.PID)).
			WithDo("stop that process first: files that change cannot be checked")
	case errors.Is(err, core.ErrNoData):
		return output.Usage("NO_DATA_DIR", fmt.Sprintf("%s is no data directory of a broker", dir)).
			WithDo("name one with --data-dir")
	case err != nil:
		return err
	}
	if err := a.printLogFindings(v); err != nil {
		return err
	}
	if v.Read.Damages > 0 {
		return reported(output.ExitVerdict)
	}
	return nil
}

func (a *app) printLogFindings(v logVerdict) error {
	r := v.Read
	summary := fmt.Sprintf("%d partitions, %d segments, %d batches, %d records, %d bytes read: "+
		"%d damages, %d notes", r.Partitions, r.Segments, r.Batches, r.Records, r.Bytes, r.Damages,
		r.Notes)
	if a.printer.Machine() {
		return output.One(a.printer, output.Verdict{
			Command: "doctor", OK: r.Damages == 0, Summary: summary, Result: v,
		}, nil)
	}
	err := output.List(a.printer, v.Findings, []output.Column[core.CheckFinding]{
		{Title: "STATUS", Cell: func(f core.CheckFinding) string {
			if f.Note {
				return "note"
			}
			return "damage"
		}},
		{Title: "FILE", Cell: func(f core.CheckFinding) string { return f.File }},
		{Title: "AT", Cell: func(f core.CheckFinding) string {
			if f.Position < 0 {
				return "-"
			}
			return fmt.Sprint(f.Position)
		}},
		{Title: "WHAT", Cell: func(f core.CheckFinding) string { return f.What }},
		{Title: "DO", Cell: func(f core.CheckFinding) string { return f.Do }},
	})
	a.printer.Note("%s", summary)
	return err
}
