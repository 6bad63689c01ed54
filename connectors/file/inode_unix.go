//go:build unix

package file

import (
	"os"
	"syscall"
)

// inodeOf returns the device and inode of a file, zeros where there are none.
func inodeOf(info os.FileInfo) (dev, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino
	}
	return 0, 0
}
