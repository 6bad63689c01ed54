package compact

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

// crashPoint is a disk as an end of the process or of the power could leave it.
type crashPoint struct {
	step  string
	disk  *vfs.Mem
	state int // index of what readers saw then
}

// crasher makes crash points ahead of every change to the disk.
type crasher struct {
	disk   *vfs.Mem
	seeds  uint64 // power cuts at each change
	active bool
	points []crashPoint
	seen   func() []string // what readers see
	states [][]string      // what they saw, one after another
	steps  []string
}

func newCrasher(seeds uint64) (*crasher, vfs.FS) {
	c := &crasher{disk: vfs.NewMem(), seeds: seeds}
	return c, vfs.NewTrace(c.disk, func(op string) {
		if c.active {
			c.crash(op)
		}
	})
}

func (c *crasher) crash(op string) {
	c.steps = append(c.steps, op)
	if now := c.seen(); len(c.states) == 0 || !slices.Equal(now, c.states[len(c.states)-1]) {
		c.states = append(c.states, now)
	}
	add := func(how string, disk *vfs.Mem) {
		step := fmt.Sprintf("%s ahead of step %d, %s", how, len(c.steps), op)
		c.points = append(c.points, crashPoint{step, disk, len(c.states) - 1})
	}
	add("kill -9", cloneDisk(c.disk))
	for seed := range c.seeds {
		add(fmt.Sprintf("power cut %d", seed), c.disk.CrashClone(uint64(len(c.steps))*100+seed))
	}
}

// cloneDisk copies what a process sees, synced or not.
func cloneDisk(from *vfs.Mem) *vfs.Mem {
	to := vfs.NewMem()
	copyTree(from, "/data", to)
	return to
}

func copyTree(from vfs.FS, dir string, to vfs.FS) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(to.MkdirAll(dir, 0o755))
	entries, err := from.ReadDir(dir)
	must(err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			copyTree(from, name, to)
			continue
		}
		data, err := vfs.ReadFile(from, name)
		must(err)
		f, err := to.OpenFile(name, vfs.WriteOnly|vfs.Create, 0o644)
		must(err)
		_, err = f.Write(data)
		must(err)
		must(f.Sync())
		must(f.Close())
	}
	must(to.SyncDir(dir))
	must(to.SyncDir(filepath.Dir(dir)))
}

// crashLog fills a log whose compaction makes several segments of many.
func crashLog(t *testing.T, disk vfs.FS) *fixture {
	c := compactConfig()
	c.SegmentBytes = 600
	f := &fixture{t: t, fs: disk, stamp: t0, config: c}
	f.clock.Store(t0)
	f.open()
	for i := range 5 {
		f.put(fmt.Sprintf("a=%d", i), fmt.Sprintf("b%d=x", i%3), "t")
		f.putBatch(record.BuilderOptions{Idempotent: true, ProducerID: int64(i % 2),
			BaseSequence: int32(i)}, fmt.Sprintf("c%d=y", i%5))
		f.put("gone=1")
		f.roll()
	}
	f.put("end=x")
	require.NoError(t, f.log.Sync(t.Context()))
	return f
}

// TestCompactionSurvivesACrashAtEveryStep ends the process, and cuts the power, ahead of each
// change that compaction makes to the disk: what is there afterwards is what readers saw, or the
// next thing that they would have seen.
func TestCompactionSurvivesACrashAtEveryStep(t *testing.T) {
	c, disk := newCrasher(2)
	f := crashLog(t, disk)
	c.seen, c.active = f.content, true
	require.Positive(t, f.clean())
	c.active = false
	c.states = append(c.states, f.content())
	c.states = slices.CompactFunc(c.states, slices.Equal)
	require.Greater(t, len(c.states), 2, "groups became visible one by one")
	require.Greater(t, len(c.steps), 40)
	t.Logf("%d steps, %d crashes, %d states", len(c.steps), len(c.points), len(c.states))
	for i, p := range c.points {
		p.check(t, c.states, i%47 == 0)
	}
}

// withRecords leaves empty batches out: which of them are there depends on how segments were
// grouped.
func withRecords(content []string) []string {
	return slices.DeleteFunc(slices.Clone(content), func(s string) bool {
		return strings.HasSuffix(s, "empty")
	})
}

// check opens the disk and compares; with again, it crashes during that opening, too.
func (p crashPoint) check(t *testing.T, states [][]string, again bool) {
	t.Helper()
	inner, disk := &crasher{}, vfs.FS(p.disk)
	if again {
		inner.disk, inner.seeds, inner.active = p.disk, 1, true
		inner.seen = func() []string { return nil }
		disk = vfs.NewTrace(p.disk, func(op string) {
			if inner.active && (strings.Contains(op, tp0.String())) {
				inner.crash(op)
			}
		})
	}
	f := &fixture{t: t, fs: disk, stamp: t0 + 1_000_000, config: compactConfig()}
	f.clock.Store(t0)
	f.config.SegmentBytes = 600
	f.open()
	inner.active = false
	require.NoError(t, f.log.Err(), p.step)
	got := f.content()
	next := min(p.state+1, len(states)-1)
	require.True(t, slices.Equal(got, states[p.state]) || slices.Equal(got, states[next]),
		"%s: neither what was there nor what was to come:\n%s\nbut\n%s", p.step,
		strings.Join(states[p.state], "\n"), strings.Join(got, "\n"))
	for _, name := range f.files() {
		for _, end := range []string{".cleaned", ".swap", ".deleted"} {
			require.False(t, strings.HasSuffix(name, end), "%s: %s is left", p.step, name)
		}
	}
	for _, q := range inner.points {
		q.step, q.state = p.step+", then "+q.step, p.state
		q.check(t, states, false)
	}
	if again { // the work goes on
		f.log.SetHighWatermark(f.log.EndOffset())
		f.clean()
		require.Equal(t, withRecords(states[len(states)-1]), withRecords(f.content()),
			"%s: compacted again", p.step)
	}
	require.NoError(t, f.dir.Close())
}

// TestFsckKnowsACompactionThatWasKilled ends the process ahead of each change to the disk, in the
// first compaction of a log and in the second: the checkpoint comes last, so segments above it may
// be compacted already. That is no damage, neither at once nor after the recovery.
func TestFsckKnowsACompactionThatWasKilled(t *testing.T) {
	c, disk := newCrasher(0)
	f := crashLog(t, disk)
	c.seen, c.active = func() []string { return nil }, true
	require.Positive(t, f.clean())
	for i := range 4 {
		f.put(fmt.Sprintf("a=%d", i), "t", "u")
		f.put("c0=z")
		f.put("c1=z")
		f.roll()
	}
	f.put("end=y")
	require.Positive(t, f.clean())
	c.active = false
	for _, p := range c.points {
		requireSound(t, p.disk, p.step)
		again := &fixture{t: t, fs: p.disk, stamp: t0, config: f.config}
		again.open()
		requireSound(t, cloneDisk(p.disk), p.step+", recovered")
		require.NoError(t, again.dir.Close())
		requireSound(t, p.disk, p.step+", recovered and closed")
	}
}

func requireSound(t *testing.T, disk *vfs.Mem, step string) {
	t.Helper()
	_, err := fsck.Check(t.Context(), fsck.Options{FS: disk, Path: "/data",
		Report: func(f fsck.Finding) { require.True(t, f.Note, "%s: %+v", step, f) }})
	require.NoError(t, err)
}

// TestCompactionGivesWayToAFailingDisk has each change to the disk fail once: with no space the log
// is as before and can be compacted later; any other failure ends the directory, and the next start
// finds one of both.
func TestCompactionGivesWayToAFailingDisk(t *testing.T) {
	probe, disk := newCrasher(0)
	f := crashLog(t, disk)
	before := f.content()
	probe.seen, probe.active = f.content, true
	f.clean()
	after := withRecords(f.content())
	steps := len(probe.steps)
	for at := range steps {
		mem := vfs.NewMem()
		n, armed := 0, false
		fault := &failAt{FS: mem, fail: func() error {
			if n++; armed && n == at+1 {
				return fmt.Errorf("step %d: %w", at, fs.ErrPermission)
			}
			return nil
		}}
		f := crashLog(t, fault)
		n, armed = 0, true
		f.cleaner.CleanNow(t.Context())
		armed = false
		if f.log.Err() == nil {
			require.Equal(t, len(before) > 0, len(f.content()) > 0)
		}
		f.fs = cloneDisk(mem)
		f.open()
		require.NoError(t, f.log.Err())
		f.log.SetHighWatermark(f.log.EndOffset())
		f.clean()
		require.Equal(t, after, withRecords(f.content()), "failure at step %d", at)
		require.NoError(t, f.dir.Close())
	}
}

// failAt asks before each change of a name.
type failAt struct {
	vfs.FS
	fail func() error
}

func (f *failAt) Rename(from, to string) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *failAt) SyncDir(name string) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.FS.SyncDir(name)
}
