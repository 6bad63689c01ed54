package quota

import "math"

// windows are how a rate is sampled. Times are in milliseconds, as in Kafka.
type windows struct {
	samples int
	length  int64
}

// span is how long a sample counts.
func (w windows) span() int64 { return int64(w.samples) * w.length }

// sample is what was recorded from start on, until the next sample began.
type sample struct {
	sum         float64
	start, last int64 // last is that of the newest event
}

// rate is a sum over a sliding time, with Kafka's samples: one more than windows.samples are kept,
// since the oldest may reach into the time that counts.
type rate struct {
	samples []sample
	current int
}

func (r *rate) record(w windows, value float64, now int64) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{start: now})
	}
	if now-r.samples[r.current].start >= w.length {
		r.current = (r.current + 1) % (w.samples + 1)
		if r.current >= len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		r.samples[r.current] = sample{start: now}
	}
	s := &r.samples[r.current]
	s.sum += value
	s.last = now
}

// measure returns the rate a second and the time that it was measured over.
func (r *rate) measure(w windows, now int64) (perSecond float64, span int64) {
	sum, oldest := 0.0, now
	for i := range r.samples {
		s := &r.samples[i]
		if now-s.last >= w.span() {
			*s = sample{start: now, last: now}
		}
		sum += s.sum
		oldest = min(oldest, s.start)
	}
	span = now - oldest
	if missing := int64(w.samples-1) - span/w.length; missing > 0 {
		span += missing * w.length
	}
	span = max(span, 1)
	return sum * 1000 / float64(span), span
}

// idle tells that a new rate would be the same.
func (r *rate) idle(w windows, now int64) bool {
	for i := range r.samples {
		if now-r.samples[i].last < w.span() {
			return false
		}
	}
	return true
}

// wait returns for how many milliseconds nothing may be recorded until the rate is down to bound.
func (r *rate) wait(w windows, bound float64, now int64) int64 {
	perSecond, span := r.measure(w, now)
	if perSecond <= bound {
		return 0
	}
	return round((perSecond - bound) / bound * float64(span))
}

// round rounds to the nearest, within what a time can be.
func round(millis float64) int64 { return int64(min(math.Floor(millis+.5), math.MaxInt32)) }

// bucket has tokens, which come back with time; less than none is a debt.
type bucket struct {
	tokens float64
	last   int64
	// full is when there will be as many tokens as it holds, 0 before it is filled at all.
	full int64
}

// crumb is what rounding may leave of a debt that is paid.
const crumb = 1e-6

// fill adds what has come since the last time.
func (b *bucket) fill(w windows, bound float64, now int64) {
	most := float64(w.span()) / 1000 * bound
	if b.full == 0 {
		b.tokens = most
	}
	b.tokens = min(most, b.tokens+bound*float64(now-b.last)/1000)
	b.last = now
}

// take takes n tokens. With strict it does only if there is no debt.
func (b *bucket) take(
	w windows, bound, n float64, now int64, strict bool,
) (taken bool, wait int64) {
	b.fill(w, bound, now)
	if taken = !strict || b.tokens >= -crumb; taken {
		most := float64(w.span()) / 1000 * bound
		b.tokens = min(most, b.tokens-n)
		b.full = now + 1 + int64((most-b.tokens)/bound*1000)
		if strict {
			return true, 0 // the debt counts for the next one
		}
	}
	if b.tokens >= -crumb {
		return taken, 0
	}
	return taken, round(-b.tokens / bound * 1000)
}
