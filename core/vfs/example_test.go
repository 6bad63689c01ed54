package vfs_test

import (
	"fmt"
	"syscall"

	"github.com/millstream-io/millstream/core/vfs"
)

// A crash clone holds what was synced, and of the rest what the seed leaves.
func ExampleMem_CrashClone() {
	disk := vfs.NewMem()
	if err := vfs.WriteFileAtomic(disk, "/state", []byte("kept"), 0o644); err != nil {
		fmt.Println(err)
	}
	f, err := disk.OpenFile("/lost", vfs.WriteOnly|vfs.Create, 0o644)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := f.Sync(); err != nil { // syncs the bytes, not the name
		fmt.Println(err)
	}
	after := disk.CrashClone(2)
	state, err := vfs.ReadFile(after, "/state")
	fmt.Printf("%s %v\n", state, err)
	// Output: kept <nil>
}

func ExampleFault() {
	disk := vfs.NewFault(vfs.NewMem())
	heal := disk.Inject(vfs.Rule{Op: vfs.OpSync, Path: ".tmp", Err: syscall.EIO})
	fmt.Println(vfs.WriteFileAtomic(disk, "/state", []byte("x"), 0o644))
	heal()
	fmt.Println(vfs.WriteFileAtomic(disk, "/state", []byte("x"), 0o644))
	// Output:
	// sync failed: sync /state.tmp: input/output error
	// <nil>
}

func ExampleNewTrace() {
	disk := vfs.NewTrace(vfs.NewMem(), func(op string) { fmt.Println(op) })
	if err := vfs.WriteFileAtomic(disk, "/state", []byte("x"), 0o644); err != nil {
		fmt.Println(err)
	}
	// Output:
	// create /state.tmp
	// write /state.tmp +1
	// sync /state.tmp
	// close /state.tmp
	// rename /state.tmp /state
	// syncdir /
}
