package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/cli/output"
)

// outcome is what became of one of the things a command was asked to change.
type outcome struct {
	Name   string        `json:"name"`
	Action string        `json:"action,omitempty"` // in the past tense; empty after an error
	Error  *output.Error `json:"error,omitempty"`  // why the action did not happen
}

// outcomes reports each of them and fails if one failed: the others are done all the same.
func (a *app) outcomes(all []outcome) error {
	slices.SortStableFunc(all, func(a, b outcome) int { return strings.Compare(a.Name, b.Name) })
	var failures []error
	for i, one := range all {
		switch {
		case one.Error != nil:
			all[i].Action = ""
			failures = append(failures, one.Error)
		case !a.printer.Machine():
			a.printer.Note("%s %s", one.Action, one.Name)
		}
	}
	if a.printer.Machine() {
		if err := output.List(a.printer, all, nil); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

// one prints a single object; its text may hold tables.
func (a *app) one(object any, text func(*strings.Builder, *output.Printer) error) error {
	var textErr error
	err := output.One(a.printer, object, func(b *strings.Builder) { textErr = text(b, a.printer) })
	return errors.Join(textErr, err)
}

// cannotRead is the error for a file or folder the user named.
func cannotRead(path string, err error) *output.Error {
	return output.Usage("CANNOT_READ", "cannot read "+path).WithCause(err)
}

// cannotWrite is its counterpart.
func cannotWrite(path string, err error) *output.Error {
	return output.Usage("CANNOT_WRITE", "cannot write "+path).WithCause(err)
}
