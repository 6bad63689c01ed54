package server

import (
	"errors"
	"net/netip"
	"sync"
	"time"
)

// errTooManyFailures ends a login before its password is looked at.
var errTooManyFailures = errors.New("too many failed logins of this address wait for their answers")

const (
	// freeFailures is how many failures of an address are answered after the plain delay: a wrong
	// password in a deployment's configuration is tried by each of its clients.
	freeFailures = 10
	// maxFailuresWaiting is how many failures of an address wait at once.
	maxFailuresWaiting = 16
	// maxFailureDelay ends the doubling of the delay. A login has 5 seconds altogether.
	maxFailureDelay = 3 * time.Second
	// forgetFailures is the time in which half of an address's failures are forgotten.
	forgetFailures = 10 * time.Second
	// maxFailingAddresses bounds the addresses that are remembered; further ones share an entry.
	maxFailingAddresses = 10_000
)

// loginFailures slows down who guesses passwords over many connections, by address: each failure
// beyond some doubles the time until the answer, and while many wait for theirs, no further
// password is looked at. Logins that are right are not held up before that. The zero value is
// ready.
type loginFailures struct {
	mu        sync.Mutex
	byAddress map[string]*addressFailures
}

// addressFailures is what is remembered of an address.
type addressFailures struct {
	// count is of failures, the older ones forgotten; since is from when on it is halved next.
	count int
	since time.Time
	// waiting counts those that are not answered yet.
	waiting int
}

// addressOf is what failures are counted by: an IPv6 client has a whole network to choose from.
func addressOf(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Is6() || ip.Is4In6() {
		return host
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// mayTry tells whether a password of the address is looked at.
func (f *loginFailures) mayTry(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.byAddress[addressOf(host)]
	return a == nil || a.waiting < maxFailuresWaiting
}

// failed counts a failure and returns after what time it is answered, delay at least. Call answered
// then.
func (f *loginFailures) failed(host string, now time.Time, delay time.Duration,
) (wait time.Duration, answered func()) {
	if delay <= 0 {
		return 0, func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.entryLocked(addressOf(host), now)
	a.forget(now)
	a.count++
	a.waiting++
	for n := a.count; n > freeFailures && delay < maxFailureDelay; n-- {
		delay = min(2*delay, maxFailureDelay)
	}
	return delay, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		a.waiting--
	}
}

// entryLocked returns the entry of an address, made if there is none.
func (f *loginFailures) entryLocked(address string, now time.Time) *addressFailures {
	if f.byAddress == nil {
		f.byAddress = map[string]*addressFailures{}
	}
	if a := f.byAddress[address]; a != nil {
		return a
	}
	if len(f.byAddress) >= maxFailingAddresses {
		for other, a := range f.byAddress {
			if a.forget(now); a.count == 0 && a.waiting == 0 {
				delete(f.byAddress, other)
			}
		}
	}
	if len(f.byAddress) >= maxFailingAddresses {
		address = ""
	}
	a := f.byAddress[address]
	if a == nil {
		a = &addressFailures{since: now}
		f.byAddress[address] = a
	}
	return a
}

// forget halves the count for each span that has passed.
func (a *addressFailures) forget(now time.Time) {
	for ; a.count > 0 && now.Sub(a.since) >= forgetFailures; a.since = a.since.Add(forgetFailures) {
		a.count /= 2
	}
	if a.count == 0 {
		a.since = now
	}
}
