package server

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// sendfileBytes is the smallest run that goes from file to socket in the kernel. Below it, a read
// into the buffer that is written anyway costs less than the extra system call.
const sendfileBytes = 32 << 10

// errShortLog tells that a log file is shorter than its index says, after the length was sent.
var errShortLog = errors.New("log file ended early")

// systemFile is a vfs.File that is a file of the operating system.
type systemFile interface {
	SyscallConn() (syscall.RawConn, error)
}

// writeChunk writes the bytes of c.
func (w *answerWriter) writeChunk(c *storage.Chunk) error {
	file, pos := c.File()
	if file == nil {
		return nil
	}
	if sys, ok := file.(systemFile); ok && w.files && c.Len() >= sendfileBytes {
		if err := w.flush(); err != nil {
			return err
		}
		return w.sendfile(sys, pos, c.Len())
	}
	return w.copyFile(file, pos, c.Len())
}

// copyFile writes n bytes of file through the gather buffer.
func (w *answerWriter) copyFile(file vfs.File, pos int64, n int) error {
	for n > 0 {
		if w.gather == nil {
			w.gather = takeBuffer(readBufferBytes)
		}
		if w.fill == len(*w.gather) {
			if err := w.flush(); err != nil {
				return err
			}
		}
		part := (*w.gather)[w.fill:]
		part = part[:min(len(part), n)]
		got, err := file.ReadAt(part, pos)
		if got < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = errShortLog
			}
			return fmt.Errorf("read log bytes for a client at %d: %w", pos, err)
		}
		w.fill += got
		n -= got
		pos += int64(got)
	}
	return nil
}
