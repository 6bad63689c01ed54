package server

import "time"

// How a Fetch that has to wait is parked, woken and ended.

// arm starts the timer of a request that is going to wait.
func (op *fetchOp) arm(wait time.Duration) {
	op.armed = true
	if op.timer == nil {
		op.timer = time.AfterFunc(wait, op.onExpire)
	} else {
		op.timer.Reset(wait)
	}
}

// run parks the operation, or answers when there is enough meanwhile.
func (op *fetchOp) run() {
	for !op.park() {
		if op.collect() {
			s := op.c.s
			s.count.parkedFetches.Add(-1)
			op.answer(false)
			op.recycle()
			s.waits.Done()
			return
		}
	}
}

// park gives the operation away until something happens. It reports false when something has
// happened already: then the caller still owns it.
func (op *fetchOp) park() bool {
	op.drop()
	for i := range op.parts {
		part := &op.parts[i]
		p := part.partition
		// A partition that cannot wait because its disk has failed is not a reason to look
		// again: that would not end before the deadline.
		if p != nil && !op.waitFor(part) && readLimit(p, op.committed()) > part.next {
			op.state.Store(fetchWoken)
			break
		}
	}
	if !op.last.Load() && op.state.CompareAndSwap(fetchRunning, fetchParked) {
		return true
	}
	op.forget()
	op.state.Store(fetchRunning)
	return false
}

// waitFor registers for new data of a partition. It reports false if that is there already, or will
// never be.
func (op *fetchOp) waitFor(part *fetchPart) bool {
	if op.committed() {
		return part.partition.WaitStable(part.next, op)
	}
	return part.partition.WaitData(part.next, op)
}

// forget takes the operation out of the waiter lists.
func (op *fetchOp) forget() {
	for i := range op.parts {
		if p := op.parts[i].partition; p != nil {
			p.Forget(op)
		}
	}
}

// Wake implements replica.Waiter: there may be new data. It is called by the one who appended or
// synced it, so the reading is done on a goroutine of its own.
func (op *fetchOp) Wake() {
	for {
		switch op.state.Load() {
		case fetchParked:
			if op.state.CompareAndSwap(fetchParked, fetchRunning) {
				go op.onResume()
				return
			}
		case fetchRunning:
			if op.state.CompareAndSwap(fetchRunning, fetchWoken) {
				return
			}
		default:
			return
		}
	}
}

// resume looks again after a wake-up.
func (op *fetchOp) resume() {
	c, head := op.c, op.head
	defer func() {
		if p := recover(); p != nil {
			c.s.count.parkedFetches.Add(-1)
			c.close(c.panicked(head, p))
			c.s.waits.Done()
		}
	}()
	resumed := clock()
	op.forget()
	enough := op.collect()
	op.worked += clock() - resumed
	if enough {
		c.s.count.parkedFetches.Add(-1)
		op.answer(false)
		op.recycle()
		c.s.waits.Done()
		return
	}
	op.run()
}

// expire answers when the client's wait is over.
func (op *fetchOp) expire() {
	op.last.Store(true)
	op.expired.Store(true)
	op.Wake()
}

// abandon ends the wait because the connection or the server closes.
func (op *fetchOp) abandon() {
	op.last.Store(true)
	op.Wake()
}
