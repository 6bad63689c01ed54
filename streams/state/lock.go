package state

import (
	"errors"
	"fmt"
	"io"

	"github.com/millstream-io/millstream/core/vfs"
)

// takeLock locks path for this process, and against another Open in it. ErrLocked names the owner.
func takeLock(path string) (io.Closer, error) {
	lock, err := vfs.OS().Lock(path)
	if err == nil {
		return lock, nil
	}
	if held, ok := errors.AsType[*vfs.LockedError](err); ok {
		return nil, fmt.Errorf("open state: %w: %s is held by process %d; stop that one first",
			ErrLocked, path, held.PID)
	}
	return nil, fmt.Errorf("lock state file: %w", err)
}
