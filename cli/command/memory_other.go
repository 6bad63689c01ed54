//go:build !linux

package command

// machineMemory is not known.
func machineMemory() int64 { return 0 }

// forgetBinary does nothing: the system does not say what is in memory.
func forgetBinary() {}
