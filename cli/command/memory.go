package command

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How a node uses memory. Collecting garbage less often costs memory and saves time: with small
// live heaps, as here, 400 % are a few megabytes. The limit makes it collect more often before the
// machine has none left for the page cache. GOGC and GOMEMLIMIT, where they are set, count instead.
const (
	gcPercent = 400
	// memoryShare is the part of the machine's memory that is the limit.
	memoryShare = 4
	// minMemoryLimit is the least limit, in bytes, where the machine has more than that.
	minMemoryLimit = 256 << 20
	// restInterval is how often the node looks whether it is at rest.
	restInterval = 2 * time.Second
	// restBytes is how much a node at rest allocates in restInterval at most, in bytes.
	restBytes = 256 << 10
)

// limitMemory sets the limit, as long as nobody else has.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if total := machineMemory(); total > 0 {
		debug.SetMemoryLimit(min(max(total/memoryShare, minMemoryLimit), total/4*3))
	}
}

// keepMemorySmall collects seldom while there is work, and gives memory back to the system each
// time that the node comes to rest, first after its start. It returns when ctx ends.
func keepMemorySmall(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ticker := time.NewTicker(restInterval)
	defer ticker.Stop()
	last, trimmed := allocated(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := allocated()
		rests := now-last < restBytes
		if rests && !trimmed {
			debug.FreeOSMemory()
			debug.FreeOSMemory() // what pools held takes two rounds
			forgetBinary()
			now = allocated()
		}
		last, trimmed = now, rests
	}
}

// allocated is how many bytes were allocated since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
