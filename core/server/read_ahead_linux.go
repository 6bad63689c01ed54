package server

import "github.com/millstream-io/millstream/core/vfs"

// coldStep is how much of a file that is not in the page cache is sent at once. A thread of the
// kernel's copies it without giving way (0.1 ms), then waits for the disk, and others have their
// turn. With the kernel's own reading ahead, up to 8 MiB at once, it runs for milliseconds on end,
// and a consumer that replays old data holds up everybody.
const coldStep = 256 << 10

// readAhead reads a file into the page cache ahead of what is sent of it.
type readAhead struct {
	// cold is set while what is sent is not all in the page cache.
	cold bool
	// end is the position up to which the kernel was told to read.
	end int64
	// cache is what the page cache is asked with.
	cache vfs.PageCache
}

// look finds out whether bytes [pos, pos+n) of a file are in the page cache, and turns the kernel's
// own reading ahead off if not.
//
// A file of which nothing is said to be cached is left to the kernel. The header of the first batch
// was read just now: so it is one of which the kernel cannot tell (overlayfs). Nor can it before
// Linux 6.5.
func (r *readAhead) look(fd int, pos int64, n int) {
	pages, cached, err := r.cache.Count(fd, pos, int64(n))
	r.cold = err == nil && cached > 0 && cached < pages
	if r.cold {
		_ = vfs.ReadOnlyWhatIsAsked(fd) // an advice that is not taken costs speed only
	}
}

// next returns how much of n bytes at pos to send at once. Of a cold file it lets the kernel begin
// to read two steps whenever less than one is on its way. With more, or sooner, a thread finds all
// there, does not wait for the disk, and so lets others wait.
func (r *readAhead) next(fd int, pos int64, n int) int {
	if !r.cold {
		return n
	}
	if from := max(r.end, pos); from < pos+coldStep {
		r.end = pos + 2*coldStep
		_ = vfs.ReadAhead(fd, from, r.end-from)
	}
	giveWay()
	return min(n, coldStep)
}
