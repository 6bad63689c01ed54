package quota

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
)

// Options say how use is measured. The zero value takes Kafka's defaults.
type Options struct {
	// Samples and Window are quota.window.num and quota.window.size.seconds. Default 11 of 1 s.
	Samples int
	Window  time.Duration
	// MutationSamples and MutationWindow are the same for Mutation, controller.quota.window.…
	MutationSamples int
	MutationWindow  time.Duration
	// MaxClients bounds the keys that are kept of each kind. Default 16384.
	MaxClients int
	// Now is the clock; its times should have a monotonic part. Default time.Now.
	Now func() time.Time
}

func (o *Options) withDefaults() {
	set(&o.Samples, 11)
	set(&o.MutationSamples, 11)
	set(&o.Window, time.Second)
	set(&o.MutationWindow, time.Second)
	set(&o.MaxClients, 16384)
	if o.Now == nil {
		o.Now = time.Now
	}
}

func set[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Manager measures use against quotas.
type Manager struct {
	opts  Options
	start time.Time
	// rules are the quotas in force; nil before there are any.
	rules atomic.Pointer[rules]
	of    [kinds]meters
	byIP  meters
}

// meters are what was used of one kind of quota.
type meters struct {
	windows windows
	most    int
	// throttled counts the times that a client had to wait, millis for how long together.
	throttled, millis atomic.Int64

	mu struct {
		sync.Mutex
		rates   map[key]*rate
		buckets map[key]*bucket
		// swept is when those were dropped that were idle.
		swept int64
	}
}

// NewManager returns a manager without quotas.
func NewManager(opts Options) *Manager {
	opts.withDefaults()
	m := &Manager{opts: opts, start: opts.Now()}
	usual := windows{opts.Samples, opts.Window.Milliseconds()}
	for k := range m.of {
		m.of[k].windows, m.of[k].most = usual, opts.MaxClients
	}
	m.of[Mutation].windows = windows{opts.MutationSamples, opts.MutationWindow.Milliseconds()}
	m.byIP.windows, m.byIP.most = usual, opts.MaxClients
	return m
}

// SetQuotas puts quotas in force. What was used goes on counting.
func (m *Manager) SetQuotas(q *metadata.ClientQuotas) {
	if old := m.rules.Load(); old != nil && old.source == q || old == nil && q == nil {
		return
	}
	m.rules.Store(newRules(q))
}

// Enabled tells whether any client has a quota of a kind. A nil manager has none.
func (m *Manager) Enabled(kind Kind) bool {
	if m == nil {
		return false
	}
	r := m.rules.Load()
	return r != nil && len(r.used[kind]) > 0
}

// now is the time in milliseconds.
func (m *Manager) now() int64 { return m.opts.Now().Sub(m.start).Milliseconds() }

// Record counts what a client used, and returns how long it has to wait.
func (m *Manager) Record(kind Kind, user, clientID string, value float64) time.Duration {
	return m.record(kind, user, clientID, value, true)
}

// Unrecord takes back what Record counted for an answer that is not given after all.
func (m *Manager) Unrecord(kind Kind, user, clientID string, value float64) {
	m.record(kind, user, clientID, -value, false)
}

func (m *Manager) record(
	kind Kind, user, clientID string, value float64, check bool,
) time.Duration {
	r := m.rules.Load()
	if r == nil {
		return 0
	}
	k, bound, ok := r.find(kind, user, clientID)
	if !ok {
		return 0
	}
	all := &m.of[kind]
	wait := all.record(k, bound, value, m.now(), check)
	if kind == Request {
		wait = min(wait, all.windows.length)
	}
	return all.count(wait)
}

// count counts a wait in milliseconds, 0 for none.
func (all *meters) count(wait int64) time.Duration {
	if wait > 0 {
		all.throttled.Add(1)
		all.millis.Add(wait)
	}
	return time.Duration(wait) * time.Millisecond
}

func (all *meters) record(k key, bound, value float64, now int64, check bool) (wait int64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := meterLocked(all, &all.mu.rates, k, now)
	r.record(all.windows, value, now)
	if !check {
		return 0
	}
	return r.wait(all.windows, bound, now)
}

// meterLocked returns what counts for k in of, which is one of the maps of all. Clients beyond the
// most that are told apart share one.
func meterLocked[M any](all *meters, of *map[key]*M, k key, now int64) *M {
	if m := (*of)[k]; m != nil {
		return m
	}
	all.sweepLocked(now)
	if len(*of) >= all.most {
		k = key{shared: true}
	}
	if *of == nil {
		*of = make(map[key]*M)
	}
	m := (*of)[k]
	if m == nil {
		m = new(M)
		(*of)[k] = m
	}
	return m
}

// sweepLocked drops what is idle, now and then.
func (all *meters) sweepLocked(now int64) {
	if now-all.mu.swept < all.windows.length {
		return
	}
	all.mu.swept = now
	for k, r := range all.mu.rates {
		if r.idle(all.windows, now) {
			delete(all.mu.rates, k)
		}
	}
	for k, b := range all.mu.buckets {
		if now >= b.full { // it is as good as a new one
			delete(all.mu.buckets, k)
		}
	}
}

// Most returns the bytes that a client may fetch at once without having to wait for certain, and
// false if there is no such bound.
func (m *Manager) Most(user, clientID string) (float64, bool) {
	r := m.rules.Load()
	if r == nil {
		return 0, false
	}
	_, bound, ok := r.find(Fetch, user, clientID)
	w := m.of[Fetch].windows
	return bound * float64(w.samples-1) * float64(w.length) / 1000, ok
}

// Mutate counts n partitions that a client makes or removes. With strict, a client that has used up
// its quota is refused and nothing counts; without, it has to wait afterwards. A negative n takes
// back what was counted for nothing.
func (m *Manager) Mutate(
	user, clientID string, n int, strict bool,
) (allowed bool, wait time.Duration) {
	r := m.rules.Load()
	if r == nil {
		return true, 0
	}
	k, bound, ok := r.find(Mutation, user, clientID)
	if !ok {
		return true, 0
	}
	all, now := &m.of[Mutation], m.now()
	all.mu.Lock()
	defer all.mu.Unlock()
	b := meterLocked(all, &all.mu.buckets, k, now)
	allowed, millis := b.take(all.windows, bound, float64(n), now, strict && n > 0)
	if n <= 0 {
		return allowed, 0
	}
	return allowed, all.count(millis)
}

// Connect counts a new connection of an address. A wait above 0 refuses it, and it does not count.
func (m *Manager) Connect(address string) (wait time.Duration) {
	r := m.rules.Load()
	if r == nil {
		return 0
	}
	bound, ok := r.connections[address]
	if !ok {
		bound = r.others
	}
	if bound <= 0 {
		return 0
	}
	now := m.now()
	k := key{clientID: address}
	millis := m.byIP.record(k, bound, 1, now, true)
	if millis > 0 {
		m.byIP.record(k, bound, -1, now, false)
	}
	return m.byIP.count(min(millis, m.byIP.windows.length))
}

// Stats are what clients had to wait for.
type Stats struct {
	// Throttled counts the times that a client had to wait, Waited for how long together.
	Throttled int64
	Waited    time.Duration
	// Clients are the keys that are kept.
	Clients int
}

// Connections is the name under which Stats has new connections of addresses.
const Connections = "connection_creation"

// Stats returns them by the name of the kind.
func (m *Manager) Stats() map[string]Stats {
	stats := map[string]Stats{Connections: m.byIP.stats()}
	for k := range m.of {
		stats[Kind(k).String()] = m.of[k].stats()
	}
	return stats
}

func (all *meters) stats() Stats {
	all.mu.Lock()
	defer all.mu.Unlock()
	return Stats{
		Throttled: all.throttled.Load(), Waited: time.Duration(all.millis.Load()) * time.Millisecond,
		Clients: len(all.mu.rates) + len(all.mu.buckets),
	}
}
