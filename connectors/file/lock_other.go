//go:build !unix

package file

import "os"

// lockFile does nothing: this system has no advisory locks here.
func lockFile(*os.File) error { return nil }
