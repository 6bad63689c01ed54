package task

import "time"

// Bounds of conditions that a test waits for.
const (
	waitFor = time.Minute
	tick    = 5 * time.Millisecond
)
