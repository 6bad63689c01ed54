package storage

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/millstream-io/millstream/core/vfs"
)

// isNoSpace reports whether err is a full disk and nothing worse.
func isNoSpace(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) &&
		!errors.Is(err, vfs.ErrUnsynced)
}

// isRefused reports whether err says that there is no room or no descriptor for now: nothing has
// happened to what is on the disk, and the same call may work later.
func isRefused(err error) bool {
	return isNoSpace(err) || vfs.FileLimit(err) && !errors.Is(err, vfs.ErrUnsynced)
}

// refused says in err, which isRefused, what there is too little of.
func refused(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("%w: %w", ErrNoFiles, err)
}

// Patience of syncDir.
const (
	syncDirTries = 30
	syncDirWait  = 100 * time.Millisecond
)

// syncDir makes the names in a directory durable. It needs a descriptor, and waits a while for one:
// often the names have changed already, and nothing may go on before they are durable.
func syncDir(fsys vfs.FS, name string) error {
	for tries := 1; ; tries++ {
		err := fsys.SyncDir(name)
		if err == nil {
			return nil
		}
		if tries == syncDirTries || !vfs.FileLimit(err) {
			return syncFileError(name, err)
		}
		<-time.After(syncDirWait)
	}
}

// syncFileError makes the error of a file's sync. One that found no descriptor was not begun.
func syncFileError(name string, err error) error {
	if vfs.FileLimit(err) {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	return fmt.Errorf("sync %s: %w: %w", name, vfs.ErrUnsynced, err)
}
