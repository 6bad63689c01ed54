package quota_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/quota"
)

// world is a manager with a clock that stands still until it is moved.
type world struct {
	*quota.Manager
	now   time.Time
	image *metadata.Image
}

func newWorld(opts quota.Options) *world {
	w := &world{now: time.Unix(1000, 0), image: metadata.NewImage(1, nil)}
	opts.Now = func() time.Time { return w.now }
	w.Manager = quota.NewManager(opts)
	return w
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// set sets a quota: of a user, client id or address, "*" for the default, "" for none.
func (w *world) set(t *testing.T, user, clientID, ip, key string, value float64) {
	t.Helper()
	part := func(name string) metadata.QuotaPart {
		switch name {
		case "":
			return metadata.QuotaPart{}
		case "*":
			return metadata.DefaultQuota
		}
		return metadata.NamedQuota(name)
	}
	e := metadata.QuotaEntity{User: part(user), ClientID: part(clientID), IP: part(ip)}
	require.NoError(t, e.Validate())
	d := metadata.NewDelta(w.image)
	v := &value
	if value == 0 {
		v = nil
	}
	require.NoError(t, d.Apply(metadata.NewClientQuotaRecord(e, key, v)))
	w.image = d.Image(1)
	w.SetQuotas(w.image.ClientQuotas())
}

const ms = time.Millisecond

// The figures are those of Kafka's ClientQuotaManagerTest: 400 bytes a second are within 500; then
// 400*10+2300 in 10.5 s are 600 a second, and (600-500)/500*10.5 s are 2.1 s.
func TestKIP219_WaitsAsLongAsKafkaSays(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "", "c", "", metadata.QuotaProduce, 500)
	for range 10 {
		require.Zero(t, w.Record(quota.Produce, "u", "c", 400))
		w.pass(time.Second)
	}
	w.pass(500 * ms)
	require.Equal(t, 2100*ms, w.Record(quota.Produce, "u", "c", 2300))
	// 10 windows of 400 and the 2300 count for 11 s yet: after 2.1 s without more, two of the 400
	// are over, and 5500 in 12.6-2 s would be 518.
	w.pass(2100 * ms)
	require.NotZero(t, w.Record(quota.Produce, "u", "c", 0))
	w.pass(11 * time.Second)
	require.Zero(t, w.Record(quota.Produce, "u", "c", 500*10))
}

// A client that sends at once what it may in ten windows is on its bound; one byte more is
// 1/500 s over it: 5001/10 s = 500.1, 0.1/500*10 s = 2 ms.
func TestFirstSamplesCountAsTenWindows(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "*", "", "", metadata.QuotaFetch, 500)
	most, ok := w.Most("u", "c")
	require.True(t, ok)
	require.Equal(t, 5000.0, most)
	require.Zero(t, w.Record(quota.Fetch, "u", "c", 5000))
	require.Equal(t, 2*ms, w.Record(quota.Fetch, "u", "c", 1))
	w.Unrecord(quota.Fetch, "u", "c", 1)
	require.Zero(t, w.Record(quota.Fetch, "u", "c", 0))
	require.Zero(t, w.Record(quota.Produce, "u", "c", 1e9), "another kind")
}

// Of a request quota one window is the longest wait (KIP-124).
func TestKIP124_RequestsWaitOneWindowAtMost(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "u", "", "", metadata.QuotaRequest, 1)
	require.Equal(t, 500*ms, w.Record(quota.Request, "u", "c", 10.5), "(1.05-1)/1*10 s")
	require.Equal(t, time.Second, w.Record(quota.Request, "u", "c", 100))
}

// The order of KIP-55, and who shares a quota: of each level the one above is taken away.
func TestKIP55_TheMostSpecificQuotaCounts(t *testing.T) {
	w := newWorld(quota.Options{})
	order := []struct {
		user, clientID string
		shares         [2]bool // with another client id of the user, with another user
	}{
		{"u", "c", [2]bool{}}, {"u", "*", [2]bool{}}, {"u", "", [2]bool{true, false}},
		{"*", "c", [2]bool{}}, {"*", "*", [2]bool{}}, {"*", "", [2]bool{true, false}},
		{"", "c", [2]bool{false, true}}, {"", "*", [2]bool{false, true}},
	}
	for i, l := range order {
		w.set(t, l.user, l.clientID, "", metadata.QuotaFetch, float64(100*(i+1)))
	}
	for i, l := range order {
		most, ok := w.Most("u", "c")
		require.True(t, ok)
		require.Equal(t, float64(1000*(i+1)), most, "level %d", i)
		w.pass(time.Hour)
		require.NotZero(t, w.Record(quota.Fetch, "u", "c", most+1000))
		other := w.Record(quota.Fetch, "u", "d", 0) // may have another quota: see below
		if l.shares[0] {
			require.NotZero(t, other, "level %d is of all client ids", i)
		} else {
			require.Zero(t, other, "level %d is of one client id", i)
		}
		require.Equal(t, l.shares[1], w.Record(quota.Fetch, "v", "c", 0) > 0, "level %d", i)
		w.set(t, l.user, l.clientID, "", metadata.QuotaFetch, 0)
	}
	_, ok := w.Most("u", "c")
	require.False(t, ok)
	require.Zero(t, w.Record(quota.Fetch, "u", "c", 1e12))
	require.False(t, w.Enabled(quota.Fetch))
}

// A client without a name is bound by the defaults.
func TestClientsWithoutIDAreBoundByDefaults(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "", "*", "", metadata.QuotaProduce, 10)
	require.NotZero(t, w.Record(quota.Produce, "u", "", 1000))
}

// The figures are those of the comment on Kafka's TokenBucket: 5 a second and 100 windows are a
// burst of 500; 560 leave a debt of 60, which takes 12 s.
func TestKIP599_BucketIsOverdrawnOnce(t *testing.T) {
	w := newWorld(quota.Options{MutationSamples: 100})
	w.set(t, "u", "", "", metadata.QuotaMutation, 5)
	allowed, wait := w.Mutate("u", "c", 560, true)
	require.True(t, allowed)
	require.Zero(t, wait, "a strict quota does not hold up what it allows")
	allowed, wait = w.Mutate("u", "c", 1, true)
	require.False(t, allowed)
	require.Equal(t, 12*time.Second, wait)
	w.pass(11999 * ms)
	allowed, wait = w.Mutate("u", "c", 1, true)
	require.False(t, allowed)
	require.Equal(t, 1*ms, wait)
	w.pass(1 * ms)
	allowed, _ = w.Mutate("u", "c", 1, true)
	require.True(t, allowed)
	// Older requests are done all the same, and wait: 1 and 1 are a debt of 2, 0.4 s.
	allowed, wait = w.Mutate("u", "c", 1, false)
	require.True(t, allowed)
	require.Equal(t, 400*ms, wait)
	allowed, wait = w.Mutate("u", "c", -2, true)
	require.True(t, allowed)
	require.Zero(t, wait)
	_, wait = w.Mutate("u", "c", 0, true)
	require.Zero(t, wait, "what was taken back is no debt")
}

// New connections of an address: 10 windows of 2 may come at once; the 21st is refused for
// (2.1-2)/2*10 s = 0.5 s, and does not count.
func TestKIP612_ConnectionsOfAnAddress(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "", "", "::ffff:10.0.0.1", metadata.QuotaConnections, 2)
	for range 20 {
		require.Zero(t, w.Connect("10.0.0.1"))
	}
	for range 3 {
		require.Equal(t, 500*ms, w.Connect("10.0.0.1"))
	}
	require.Zero(t, w.Connect("10.0.0.2"))
	w.set(t, "", "", "*", metadata.QuotaConnections, 1)
	for range 10 {
		require.Zero(t, w.Connect("10.0.0.3"))
	}
	require.Equal(t, time.Second, w.Connect("10.0.0.3"), "(1.1-1)/1*10 s")
	require.Equal(t, int64(4), w.Stats()[quota.Connections].Throttled)
}

// What clients call themselves makes no endless memory, and no way around: the names for which
// there is no room share one quota.
func TestNamesOfClientsTakeBoundedMemory(t *testing.T) {
	w := newWorld(quota.Options{MaxClients: 100})
	w.set(t, "", "*", "", metadata.QuotaProduce, 10)
	w.set(t, "", "*", "", metadata.QuotaMutation, 10)
	waits := 0
	for i := range 100_000 {
		if w.Record(quota.Produce, "u", fmt.Sprint(i), 1) > 0 {
			waits++
		}
		w.Mutate("u", fmt.Sprint(i), 1, true)
	}
	stats := w.Stats()
	require.LessOrEqual(t, stats["produce"].Clients, 101)
	require.LessOrEqual(t, stats["controller_mutation"].Clients, 101)
	require.Greater(t, waits, 99_000)
	w.pass(20_000 * time.Second)
	w.Record(quota.Produce, "u", "new", 1)
	w.Mutate("u", "new", 1, true)
	stats = w.Stats()
	require.Equal(t, 1, stats["produce"].Clients, "idle ones are forgotten")
	require.Equal(t, 1, stats["controller_mutation"].Clients)
}

func TestWithoutQuotasNothingIsKept(t *testing.T) {
	w := newWorld(quota.Options{})
	record := func() {
		w.Record(quota.Produce, "u", "c", 1)
		w.Record(quota.Request, "u", "c", 1)
		w.Connect("h")
		w.Mutate("u", "c", 1, true)
	}
	require.Zero(t, testing.AllocsPerRun(100, record))
	w.set(t, "", "d", "", metadata.QuotaProduce, 1)
	record()
	for name, s := range w.Stats() {
		require.Zero(t, s, name)
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	w := newWorld(quota.Options{})
	w.set(t, "u", "*", "", metadata.QuotaProduce, 1e9)
	w.Record(quota.Produce, "u", "c", 1)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Record(quota.Produce, "u", "c", 1) }))
}

func BenchmarkRecord(b *testing.B) {
	w := newWorld(quota.Options{})
	d := metadata.NewDelta(w.image)
	v := 1e12
	for _, e := range []metadata.QuotaEntity{{User: metadata.NamedQuota("u")},
		{User: metadata.DefaultQuota, ClientID: metadata.DefaultQuota},
		{ClientID: metadata.DefaultQuota}} {
		_ = d.Apply(metadata.NewClientQuotaRecord(e, metadata.QuotaProduce, &v))
	}
	w.SetQuotas(d.Image(1).ClientQuotas())
	b.ReportAllocs()
	for b.Loop() {
		w.Record(quota.Produce, "v", "c", 1)
	}
}
