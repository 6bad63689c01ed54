package state

import "errors"

// Errors a scan callback or a store returns.
var (
	// ErrStop, returned by a scan callback, ends the scan without an error.
	ErrStop = errors.New("stop scan")
	// ErrClosed reports use of a store after Close.
	ErrClosed = errors.New("state is closed")
	// ErrKeyTooLong reports a key of more than MaxKey bytes.
	ErrKeyTooLong = errors.New("key is too long for the state store")
)

// Errors of Open: the file on disk is there but must not be used as it is. None of them wipes
// anything; the text says what to do.
var (
	// ErrLocked reports that another live process (or another Open of this one) owns the file.
	ErrLocked = errors.New("state file is in use")
	// ErrMismatch reports that the file was written for another task, store format, topology
	// fingerprint or changelog topic than the one asked for.
	ErrMismatch = errors.New("state file does not belong to this task")
)

// ErrDamaged reports that the file does not have what was written to it. What was read from it must
// not be committed; DB.Discard puts it aside, and a restore makes it anew from the changelog.
var ErrDamaged = errors.New("state file is damaged")

// errOlder reports a file of an older format, which a restore makes anew.
var errOlder = errors.New("state file has an older format")
