package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// PageCache asks the kernel what it has of files in its page cache, without an allocation. The zero
// value is ready; it is used by one goroutine at a time.
type PageCache struct {
	asked unix.CachestatRange
	got   unix.Cachestat_t
}

// Count returns how many pages bytes [off, off+n) of a file touch, n > 0, and how many of them are
// cached; of a file of overlayfs none, whatever is. It fails before Linux 6.5.
func (c *PageCache) Count(fd int, off, n int64) (pages, cached int64, err error) {
	c.asked = unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	if err := unix.Cachestat(uint(fd), &c.asked, &c.got, 0); err != nil {
		return 0, 0, os.NewSyscallError("cachestat", err)
	}
	page := int64(os.Getpagesize())
	return (off+n-1)/page - off/page + 1, int64(c.got.Cache), nil
}

// ReadOnlyWhatIsAsked turns reading ahead off for an open file.
func ReadOnlyWhatIsAsked(fd int) error {
	return os.NewSyscallError("fadvise", unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM))
}

// ReadAhead lets the kernel begin to read bytes [off, off+n) of a file into its page cache, as far
// as the file has them, and does not wait for that.
func ReadAhead(fd int, off, n int64) error {
	return os.NewSyscallError("fadvise", unix.Fadvise(fd, off, n, unix.FADV_WILLNEED))
}

// ReadAsUsual takes ReadOnlyWhatIsAsked back; tests begin with it.
func ReadAsUsual(fd int) error {
	return os.NewSyscallError("fadvise", unix.Fadvise(fd, 0, 0, unix.FADV_NORMAL))
}

// Forget takes what a file has on the disk out of the page cache, for tests of reading from it.
func Forget(fd int) error {
	return os.NewSyscallError("fadvise", unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
}
