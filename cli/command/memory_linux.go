package command

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// machineMemory is the memory that this process may use: the machine's, or its group's if that is
// less. 0 if it is not known.
func machineMemory() int64 {
	total := int64(0)
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if line, _, ok := strings.Cut(string(data), " kB\n"); ok { // "MemTotal:  1234 kB"
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "MemTotal:")), 10, 64)
			total = n << 10
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // or "max"
		if err == nil && n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	return total
}

// forgetBinary takes the pages of the program's file out of this process: most are of code and
// tables that only the start needs. They stay in the page cache, from where those that are needed
// come back.
func forgetBinary() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// 00400000-01abc000 r-xp 00000000 08:01 1234 /usr/bin/millstream
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[5] != self || fields[1][1] != '-' {
			continue // what was written to must stay
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start < end {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(start), uintptr(end-start),
				syscall.MADV_DONTNEED)
		}
	}
}
