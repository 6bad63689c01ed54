package server

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// sentFile is a file and a connection over which parts of it are sent.
type sentFile struct {
	t      *testing.T
	file   vfs.File
	bytes  []byte
	fd     int
	writer *answerWriter
	client net.Conn
}

func newSentFile(t *testing.T) *sentFile {
	s := &sentFile{t: t, bytes: make([]byte, 16<<20)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(s.bytes)
	name := filepath.Join(t.TempDir(), "log")
	file, err := vfs.OS().OpenFile(name, vfs.ReadWrite|vfs.Create, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	_, err = file.WriteAt(s.bytes, 0)
	require.NoError(t, err)
	require.NoError(t, file.Sync()) // what waits to be written cannot leave the cache
	raw, err := file.(systemFile).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { s.fd = int(fd) }))
	s.file = file

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s.client, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.client.Close() })
	broker, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = broker.Close() })
	s.writer = &answerWriter{conn: broker, step: time.Hour, written: func(int) {}}
	return s
}

// send sends a part and checks what comes.
func (s *sentFile) send(pos int64, n int) {
	s.t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- s.writer.sendfile(s.file.(systemFile), pos, n) }()
	got := make([]byte, n)
	_, err := io.ReadFull(s.client, got)
	require.NoError(s.t, err)
	require.NoError(s.t, <-sent)
	require.True(s.t, string(s.bytes[pos:pos+int64(n)]) == string(got), "other bytes than the file's")
}

// cached returns how many bytes from pos to end are in the page cache.
func (s *sentFile) cached(pos, end int64) int64 {
	s.t.Helper()
	var cache vfs.PageCache
	_, pages, err := cache.Count(s.fd, pos, end-pos)
	require.NoError(s.t, err)
	return pages * int64(os.Getpagesize())
}

// cool takes the file out of the page cache but for its page at pos, as if the header there had
// been read. False: it cannot be known whether that worked, as on overlayfs, or cannot be done.
func (s *sentFile) cool(pos int64) bool {
	s.t.Helper()
	size := int64(len(s.bytes))
	_, err := s.file.ReadAt(make([]byte, size), 0)
	require.NoError(s.t, err)
	if s.cached(0, size) != size {
		return false
	}
	require.NoError(s.t, vfs.Forget(s.fd))
	if s.cached(0, size) != 0 {
		return false
	}
	require.NoError(s.t, vfs.ReadOnlyWhatIsAsked(s.fd))
	_, err = s.file.ReadAt(make([]byte, 61), pos)
	require.NoError(s.t, err)
	return true
}

// TestColdBytesAreReadInSteps: of a file that is not in the page cache the bytes are right,
// wherever they begin, and at most two steps are read past them, and one page for a header that is
// read after that: not the megabytes that the kernel would read, in which it runs on and on.
func TestColdBytesAreReadInSteps(t *testing.T) {
	s := newSentFile(t)
	for _, c := range []struct {
		pos int64
		n   int
	}{{0, 1 << 20}, {4<<20 + 17, 1<<20 + 5}, {1 << 20, 3 << 20}, {8 << 20, 40_000}} {
		cold := s.cool(c.pos)
		// The kernel's own reading ahead is on, as for a file that was just opened.
		require.NoError(t, vfs.ReadAsUsual(s.fd))
		s.send(c.pos, c.n)
		if !cold {
			continue
		}
		page := int64(os.Getpagesize())
		end := (c.pos + int64(c.n) + page - 1) &^ (page - 1)
		ahead := s.cached(end, int64(len(s.bytes)))
		_, err := s.file.ReadAt(make([]byte, 61), end+ahead) // a header
		require.NoError(t, err)
		require.Equal(t, ahead+page, s.cached(end, int64(len(s.bytes))), "of %v", c)
		require.LessOrEqual(t, ahead, int64(2*coldStep), "of %v", c)
		if before := c.pos &^ (page - 1); before > 0 {
			require.Zero(t, s.cached(0, before), "of %v", c)
		}
	}
}

// TestCachedBytesAreSentAtOnce: who reads what was just written pays for none of the above.
func TestCachedBytesAreSentAtOnce(t *testing.T) {
	s := newSentFile(t)
	var r readAhead
	r.look(s.fd, 1<<20, 1<<20)
	require.Equal(t, 1<<20, r.next(s.fd, 1<<20, 1<<20))
	if s.cool(3 << 20) {
		r.look(s.fd, 3<<20, 1<<20)
		require.Equal(t, coldStep, r.next(s.fd, 3<<20, 1<<20))
	}
	s.send(0, 16<<20)
	r.look(s.fd, 3<<20, 1<<20)
	require.Equal(t, 1<<20, r.next(s.fd, 3<<20, 1<<20), "cached again")
}
