package task

import "time"

// Bounds of conditions that a test waits for.
const (
	waitFor = 10 * time.Second
	tick    = 5 * time.Millisecond
)
