package window

// SlidingEndedBy returns the start of the sliding window that a record at ts ends.
func SlidingEndedBy(ts, span int64) int64 {
	if ts >= 0 && ts < span {
		return 0
	}
	return ts - span
}

// SlidingBegunBy returns the start of the sliding window that a record at ts begins; it exists if
// it holds a record.
func SlidingBegunBy(ts int64) int64 { return ts + 1 }
