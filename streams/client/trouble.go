package client

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Trouble is what keeps a log from answering, and since when; the zero one is none. It passes by
// itself: whoever waits goes on as soon as there is an answer.
type Trouble struct {
	Since time.Time
	Error string
}

// Is tells whether there is trouble.
func (t Trouble) Is() bool { return !t.Since.IsZero() }

// Earlier is the one of two that began first.
func (t Trouble) Earlier(o Trouble) Trouble {
	if !t.Is() || o.Is() && o.Since.Before(t.Since) {
		return o
	}
	return t
}

// troubleAfter is how long an answer may take beyond what it was asked to before that is trouble: a
// broker that restarts is back earlier.
const troubleAfter = 3 * time.Second

// waiter is a user of connections that can tell what it waits for.
type waiter interface{ trouble(now time.Time) Trouble }

// waiters are the users of one Kafka adapter, and the last failure to connect.
type waiters struct {
	mu struct {
		sync.Mutex
		all map[waiter]bool
		// dial is why the last connection failed, "" after one that did not.
		dial string
	}
}

var _ kgo.HookBrokerConnect = (*waiters)(nil)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (w *waiters) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.dial = ""
	if err != nil {
		w.mu.dial = fmt.Sprintf("connect to %s:%d: %v", meta.Host, meta.Port, err)
	}
}

func (w *waiters) add(one waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.all == nil {
		w.mu.all = map[waiter]bool{}
	}
	w.mu.all[one] = true
}

func (w *waiters) remove(one waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.all, one)
}

// Trouble implements Cluster.
func (k *Kafka) Trouble() Trouble {
	w := &k.waiters
	w.mu.Lock()
	dial := w.mu.dial
	all := make([]waiter, 0, len(w.mu.all))
	for one := range w.mu.all {
		all = append(all, one)
	}
	w.mu.Unlock()
	var first Trouble
	now := time.Now()
	for _, one := range all {
		first = first.Earlier(one.trouble(now))
	}
	if first.Is() && dial != "" {
		first.Error += ": " + dial
	}
	return first
}

// asking is one request that is tried again until it is answered.
type asking struct {
	since time.Time
	what  string
}

func (a *asking) trouble(now time.Time) Trouble {
	if now.Sub(a.since) <= troubleAfter {
		return Trouble{}
	}
	return Trouble{Since: a.since, Error: a.what}
}

// ask notes that something is asked for until the function it returns is called.
func (w *waiters) ask(format string, args ...any) (answered func()) {
	a := &asking{since: time.Now(), what: fmt.Sprintf(format, args...)}
	w.add(a)
	return func() { w.remove(a) }
}

// trouble implements waiter.
func (c *kafkaConsumer) trouble(now time.Time) (first Trouble) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp, r := range c.mu.at {
		if r.paused || r.failed || r.silent.IsZero() ||
			now.Sub(r.silent) <= c.opts.FetchWait+troubleAfter {
			continue
		}
		text := tp.String() + " is not answered"
		if r.why != nil {
			text = fmt.Sprintf("%s cannot be read: %v", tp, r.why)
		}
		first = first.Earlier(Trouble{Since: r.silent, Error: text})
	}
	return first
}

// trouble implements waiter.
func (u *unacked) trouble(now time.Time) Trouble {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.sends == 0 || u.mu.err != nil || now.Sub(u.mu.still) <= troubleAfter {
		return Trouble{}
	}
	return Trouble{Since: u.mu.still, Error: fmt.Sprintf(
		"%d bytes of records are not acknowledged", u.mu.bytes)}
}
