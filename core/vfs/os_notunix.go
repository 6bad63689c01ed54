//go:build !unix

package vfs

import (
	"errors"
	"os"
)

// tryLock cannot be done without BSD locks; running unlocked would risk the data.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// syncDir has no meaning where directories cannot be opened for syncing.
func syncDir(*os.File) error { return nil }

func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }

func posixLockOwner(*os.File) (pid int, err error) { return 0, nil }

func totalBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }

// MaxOpenFiles returns how many descriptors the process may have, 0 if that is not known.
func MaxOpenFiles() int { return 0 }
