package pluginpb

// An operator with timers (Part.timers) gets more than records in its batches, and gives more: each
// such thing is a record of a frame with a header of these names, and no others.
//
//	to the plugin
//	  HeaderTimerTime   on a record: stream time when it is processed (decimal ms). On a record that
//	                    has HeaderTimerClock too and is nothing else: time has come that far, and the
//	                    batch is over.
//	  HeaderTimerFired  a timer is due: its name. Key and value are its key and data, the timestamp
//	                    is when it was due, HeaderTimerClock says by which clock.
//	from the plugin
//	  HeaderTimerSet    sets the timer of this name: key, value and timestamp as above.
//	  HeaderTimerDelete takes the timer of this name back.
//	  HeaderTimerOf     on a result: it was emitted by the timer that was due then (decimal ms), with
//	                    HeaderTimerClock.
//	  HeaderTimerFailed the timer (key, value, timestamp) failed, and why.
//
// A timer of event time that is set and due within one batch fires in the plugin, which knows the
// stream time of each record, so that the result does not depend on where batches are cut. What is
// set at the end of the batch is what the host keeps.
const (
	HeaderTimerTime   = "ms-timer-time"
	HeaderTimerFired  = "ms-timer-fired"
	HeaderTimerSet    = "ms-timer-set"
	HeaderTimerDelete = "ms-timer-delete"
	HeaderTimerOf     = "ms-timer-of"
	HeaderTimerFailed = "ms-timer-failed"
	HeaderTimerClock  = "ms-timer-clock"
)

// ClockEvent and ClockWall are the values of HeaderTimerClock.
const (
	ClockEvent = "event"
	ClockWall  = "wall"
)

// IsTimerHeader tells a header of this protocol, which no record from outside may have.
func IsTimerHeader(name string) bool {
	switch name {
	case HeaderTimerTime, HeaderTimerFired, HeaderTimerSet, HeaderTimerDelete, HeaderTimerOf,
		HeaderTimerFailed, HeaderTimerClock:
		return true
	}
	return false
}
