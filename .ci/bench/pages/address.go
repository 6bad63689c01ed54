package main

import "unsafe"

// address returns where b is.
func address(b []byte) int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
