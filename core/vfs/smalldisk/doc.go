// Package smalldisk gives a test a disk that it can fill: what a kernel does without space, no
// injected error shows.
//
// # Path
//
//	Run: the test binary again, for this test only, in a mount namespace of its own -> tmpfs of so
//	many bytes -> the test's function; Fill -> writes are refused with ENOSPC -> remove
//
// It needs no rights: without them the process has a user namespace, too.
//
// # Locks
//
// None.
//
// # Goroutines
//
// None.
package smalldisk
