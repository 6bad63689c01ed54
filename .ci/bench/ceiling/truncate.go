package main

import (
	"syscall"
	"unsafe"
)

// truncate drops at most n bytes of what a socket has received. Linux only: elsewhere the bytes
// would be written behind b.
func truncate(fd int, b []byte, n int) (int, error) {
	r, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(n), syscall.MSG_TRUNC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}
