package raft

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/storage"
)

// Errors of Node.Propose.
var (
	// ErrNotLeader says that this node does not lead, so the command was not taken.
	ErrNotLeader = errors.New("not the raft leader")
	// ErrOutcomeUnknown says that leadership ended while the command was on its way: it may be
	// applied later or never.
	ErrOutcomeUnknown = errors.New("raft leadership lost, the outcome is not known")
	// ErrTooLarge says that a command passes MaxCommand.
	ErrTooLarge = errors.New("raft command too large")
	// ErrNoSpace says that the disk is full. The command was not taken; later ones are once there is
	// space again. It is storage.ErrNoSpace, too.
	ErrNoSpace = fmt.Errorf("metadata log: %w", storage.ErrNoSpace)
	// ErrClosed says that the node was closed.
	ErrClosed = errors.New("raft node is closed")
	// ErrFailed says that the node ended by itself; what ended it is wrapped with it.
	ErrFailed = errors.New("raft node has failed")
)

// Errors of Open.
var (
	// ErrDamaged says that what was on the disk for sure cannot be read any more. The node must not
	// vote or lead with it; its data directory has to be replaced.
	ErrDamaged = errors.New("raft state is damaged")
	// ErrUnsupported says that the stored state needs what this build does not have.
	ErrUnsupported = errors.New("raft state is of a later build")
)
