package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

// passing are causes that may pass by themselves: an unreachable broker, a full disk.
var passing = []error{context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO,
	io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, kgo.ErrRecordTimeout, kgo.ErrRecordRetries,
	task.ErrStateFull, client.ErrLost,
	// A broker that came back without its last writes: what is missing is made again from the commit.
	kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID}

// classifyEnd marks an error that ended a run as temporary where trying again may help. A record
// that cannot be processed, a plugin that gives up and a state that does not fit are not: the same
// would happen again.
func classifyEnd(err error) error {
	if err == nil || !temporary(err) {
		return err
	}
	return fmt.Errorf("%w: %w", deploy.ErrTemporary, err)
}

// withWayBack adds, to an error that comes again whenever the pipeline is started, the command that
// gets it going.
func withWayBack(name string, patterns bool, err error) error {
	reset := fmt.Sprintf("millstream pipeline reset %s --to ", name)
	way := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, task.ErrPosition):
		way = "to go on behind what is gone, with the state: millstream pipeline start " + name +
			" --skip-lost; to process what is there anew: " + reset + "start"
	case errors.Is(err, task.ErrTopics), errors.Is(err, task.ErrStateLost),
		errors.Is(err, task.ErrCommitRecord), errors.Is(err, task.ErrSnapshot),
		errors.Is(err, state.ErrMismatch):
		way = "to process what is there anew: " + reset + "start; to go on where it stood without" +
			" what it had stored: " + reset + "committed"
	default:
		return err
	}
	if patterns && errors.Is(err, task.ErrTopics) {
		way = "if a topic of a pattern was deleted: millstream pipeline apply FILE leaves it out, with" +
			" the state; else, " + way
	}
	return fmt.Errorf("%w; %s", err, way)
}

func temporary(err error) bool {
	for _, cause := range passing {
		if errors.Is(err, cause) {
			return true
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok { // the broker went away
		return true
	}
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return true
	}
	if answer, ok := errors.AsType[*kerr.Error](err); ok {
		return kerr.IsRetriable(answer)
	}
	return false
}

// Replaces implements deploy.Instance: a change that would lose what steps have stored is refused.
func (in *instance) Replaces(running deploy.Instance) error {
	old, ok := running.(*instance)
	if !ok {
		return nil
	}
	if old.p.revision.Generation != in.p.revision.Generation {
		return nil // it begins anew
	}
	diff := plan.Diff(old.p.plan, in.p.plan)
	if diff.Class != plan.StateReset {
		return nil
	}
	var lost []string
	for _, c := range diff.Changes {
		if c.Class == plan.StateReset {
			lost = append(lost, fmt.Sprintf("%s %s: %s", c.Part, c.ID, c.Why))
		}
	}
	return fmt.Errorf("%w: %s; to begin anew without it: millstream pipeline apply %s --drop-state"+
		" --to start", ErrLosesState, strings.Join(lost, "; "), in.p.revision.File)
}

// ErrLosesState refuses a change after which what steps have stored could not be used.
var ErrLosesState = errors.New("the change would lose state")
