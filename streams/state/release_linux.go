package state

import (
	"os"
	"syscall"
)

// release lets go of the pages of the file that this process has mapped. They stay in the page
// cache, where a read finds them again; without it all that was ever read counts as memory of the
// process. bbolt writes through the file and never through the map, so nothing is lost.
func (f *file) release() {
	info, err := os.Stat(f.path)
	if err != nil || info.Size() < releaseAbove {
		return
	}
	tx, err := f.db.Begin(false) // holds the map where it is
	if err != nil {
		return
	}
	defer func() { _ = tx.Rollback() }() // a read transaction has nothing to lose
	length := min(info.Size(), tx.Size()) &^ int64(os.Getpagesize()-1)
	// Advice that is not taken costs memory only.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, f.db.Info().Data, uintptr(length),
		syscall.MADV_DONTNEED)
}

// releaseAbove is the size of a file whose pages are let go of.
const releaseAbove = 1 << 20
