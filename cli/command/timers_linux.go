package command

import (
	"fmt"
	"os"
	"strconv"
)

// timerSlack is how late the kernel may wake a thread of the node that sleeps for a time. Go has a
// thread that looks after the others, each 20 µs at the begin of any work: as precisely as that it
// takes a tenth of the node's CPU time. Timers of the node are not finer than a millisecond.
const timerSlack = 250_000 // nanoseconds

// loosenTimers sets timerSlack for all threads; later ones inherit it. It needs CAP_SYS_NICE for
// threads other than the caller's, and does without where that is missing: who starts the node can
// set it as well, such as systemd with TimerSlackNSec.
func loosenTimers() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		_ = os.WriteFile(fmt.Sprintf("/proc/%s/timerslack_ns", t.Name()),
			strconv.AppendInt(nil, timerSlack, 10), 0)
	}
}
