//go:build unix

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks f for this process; errLocked when another has it.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
