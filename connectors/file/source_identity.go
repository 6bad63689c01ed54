package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// fingerprintBytes is how much of the start of a file tells it from others.
const fingerprintBytes = 1024

// Position is a place in a file, and which file that is.
type Position struct {
	Dev    uint64 `json:"dev,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Prefix int    `json:"prefix,omitempty"` // bytes the fingerprint is of
	Hash   string `json:"fingerprint,omitempty"`
	Offset int64  `json:"offset"` // of the next line, in the unpacked file
	Line   int64  `json:"line"`   // lines before it
}

// fingerprint hashes the first n bytes of f, fewer when it is shorter.
func fingerprint(f io.ReaderAt, n int) (hash string, size int, err error) {
	b := make([]byte, n)
	size, err = f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	sum := sha256.Sum256(b[:size])
	return hex.EncodeToString(sum[:8]), size, nil
}

// identify fills in which file f is.
func (p *Position) identify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.Dev, p.Inode = inodeOf(info)
	p.Hash, p.Prefix, err = fingerprint(f, fingerprintBytes)
	return err
}

// matches says whether f still starts with what the position's file started with.
func (p *Position) matches(f *os.File) (bool, error) {
	hash, size, err := fingerprint(f, p.Prefix)
	return err == nil && size == p.Prefix && hash == p.Hash, err
}

// openAt opens the file the position is in: path, or the name it was rotated to.
func (p *Position) openAt(path string, follow bool) (f *os.File, rotated bool, err error) {
	f, err = os.Open(path)
	if err == nil {
		same, e := p.matches(f)
		info, e2 := f.Stat()
		if e = errors.Join(e, e2); e != nil {
			return nil, false, errors.Join(fmt.Errorf("read %s: %w", path, e), f.Close())
		}
		_, inode := inodeOf(info)
		if same && (!follow || inode == p.Inode || p.Inode == 0) {
			return f, false, nil
		}
		if same && follow && info.Size() >= p.Offset {
			return f, false, nil // copied, or on another file system
		}
		_ = f.Close()
	} else if !errors.Is(err, os.ErrNotExist) || !follow {
		return nil, false, err
	}
	if !follow {
		return nil, false, fmt.Errorf("%s is not the file it was: its first %d bytes differ; "+
			"reset the source's position to read it from the start", path, p.Prefix)
	}
	return p.openRotated(path)
}

// openRotated looks beside path for the file of the position.
func (p *Position) openRotated(path string) (f *os.File, rotated bool, err error) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() < p.Offset {
			continue
		}
		if dev, inode := inodeOf(info); dev != p.Dev || inode != p.Inode {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if same, err := p.matches(f); err == nil && same {
			return f, true, nil
		}
		_ = f.Close()
	}
	return nil, false, os.ErrNotExist
}
