// Package vfs is the disk: the only door of the log to files, so that every fault of a disk can be
// produced in a test.
//
// # Path
//
// OS is the real file system. NewMem keeps files in memory and can be cloned as after a power cut
// (Mem.CrashClone) or kill -9 (Mem.Clone). NewFault and NewTrace wrap either of them: errors, full
// disk and delay; a list of what was done. NewPool lets many files share few descriptors.
//
// # Invariants
//
// What survives a crash is what POSIX promises and no more: the bytes of a file up to its last Sync
// or Datasync, and the names in a directory up to its last SyncDir. A rename is atomic, not
// durable. Mem loses everything else at random; code that passes on Mem holds on a disk.
//
// # Goroutines
//
// None. FS and File values are safe for concurrent use, except that Read and Write of one File
// share its offset.
//
// # Locks
//
// Pool has one lock for its tables, taken after the one each of its files has. Mem has one lock for
// its tree and one per file, taken in that order. Fault has one, never held over a call to the file
// system beneath.
//
// # Files
//
// WriteFileAtomic writes NAME.tmp and renames it to NAME. FS.Lock leaves its file in place, with
// the process id of the last owner in it; HoldLock leaves even that as it is.
package vfs
