package state

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the oracle: plain maps, one per tier that can be lost.
type model struct{ visible, committed map[string]string }

// rig runs one DB against the model.
type rig struct {
	t     *rapid.T
	db    *DB
	m     model
	now   time.Time
	next  int64
	log   []logged // the changelog
	flush time.Duration
}

type logged struct {
	key   string
	value *string
}

// changelogKey is the documented layout, written again here.
func changelogKey(window int64, windowed bool, key string) string {
	if !windowed {
		return "k\x03kvs" + key
	}
	return fmt.Sprintf("w\x03win%s", appendStart(nil, window)) + key
}

func (r *rig) store(window int64, windowed bool) Store {
	if windowed {
		return r.db.Windows("win").Window(window)
	}
	return r.db.Store("kvs")
}

func (r *rig) step() {
	windowed := rapid.Bool().Draw(r.t, "windowed")
	window := rapid.SampledFrom([]int64{-20, -10, 0, 10}).Draw(r.t, "window")
	key := rapid.SampledFrom([]string{"", "a", "b", "b\x00", "c", "zz"}).Draw(r.t, "key")
	full := changelogKey(window, windowed, key)
	s := r.store(window, windowed)
	switch op := rapid.IntRange(0, 9).Draw(r.t, "op"); op {
	case 0, 1, 2:
		v := rapid.SampledFrom([]string{"", "1", "two", "three3"}).Draw(r.t, "value")
		require.NoError(r.t, s.Put([]byte(key), []byte(v)))
		r.m.visible[full] = v
	case 3:
		require.NoError(r.t, s.Delete([]byte(key)))
		delete(r.m.visible, full)
	case 4, 5:
		v, ok, err := s.Get([]byte(key))
		require.NoError(r.t, err)
		want, wantOK := r.m.visible[full]
		require.Equal(r.t, wantOK, ok)
		require.Equal(r.t, want, string(v))
	case 6:
		require.NoError(r.t, r.db.Windows("win").Drop(window))
		prefix := changelogKey(window, true, "")
		maps.DeleteFunc(r.m.visible, func(k, _ string) bool { return strings.HasPrefix(k, prefix) })
	case 7:
		r.commit()
	case 8:
		r.db.Abort()
		r.m.visible = maps.Clone(r.m.committed)
	case 9:
		r.scan(s, changelogKey(window, windowed, ""))
	}
}

func (r *rig) commit() {
	require.NoError(r.t, r.db.Changes(func(k, v []byte) error {
		l := logged{key: string(k)}
		if v != nil {
			s := string(v)
			l.value = &s
		}
		r.log = append(r.log, l)
		r.next++
		return nil
	}))
	r.next++ // the meta record
	r.log = append(r.log, logged{key: "m"})
	r.now = r.now.Add(r.flush / 3)
	require.NoError(r.t, r.db.Commit(r.now, Meta{r.next, fmt.Appendf(nil, "c%d", r.next)}))
	r.m.committed = maps.Clone(r.m.visible)
}

func (r *rig) scan(s Store, prefix string) {
	from := rapid.SampledFrom([][]byte{nil, {}, []byte("b"), []byte("zzz")}).Draw(r.t, "from")
	to := rapid.SampledFrom([][]byte{nil, []byte("b\x00"), []byte("c")}).Draw(r.t, "to")
	var want, have []string
	for _, k := range slices.Sorted(maps.Keys(r.m.visible)) {
		rest, ok := strings.CutPrefix(k, prefix)
		if ok && rest >= string(from) && (to == nil || rest < string(to)) {
			want = append(want, rest+"="+r.m.visible[k])
		}
	}
	require.NoError(r.t, s.Scan(from, to, func(k, v []byte) error {
		have = append(have, string(k)+"="+string(v))
		return nil
	}))
	require.Equal(r.t, want, have)
}

// requireAll compares everything visible with want.
func requireAll(t require.TestingT, db *DB, want map[string]string) {
	have := map[string]string{}
	var last []byte
	require.NoError(t, db.Each(func(k, v []byte) error {
		require.Negative(t, bytes.Compare(last, k), "order of %q and %q", last, k)
		last = append(last[:0], k...)
		have[string(k)] = string(v)
		return nil
	}))
	require.Equal(t, want, have)
	starts := map[int64]bool{}
	for k := range want {
		if rest, ok := strings.CutPrefix(k, "w\x03win"); ok {
			starts[parseStart([]byte(rest))] = true
		}
	}
	listed, err := db.Windows("win").Starts()
	require.NoError(t, err)
	require.Equal(t, append([]int64{}, slices.Sorted(maps.Keys(starts))...), listed)
}

// prefix replays the changelog up to next.
func (r *rig) prefix(next int64) map[string]string {
	rows := map[string]string{}
	for _, l := range r.log[:next] {
		switch {
		case l.value != nil:
			rows[l.key] = *l.value
		default:
			delete(rows, l.key)
		}
	}
	return rows
}

// TestStoreConformance runs random operations on each kind of store against plain maps: reads and
// scans see what was written, Abort goes back to the commit, the changelog rebuilds the state.
func TestStoreConformance(t *testing.T) {
	kinds := map[string]func() Options{
		"mem": func() Options { return Options{} },
		"bolt flushed at each commit": func() Options {
			return Options{Path: filepath.Join(t.TempDir(), "s", "db"), FlushInterval: 1}
		},
		"bolt flushed sometimes": func() Options {
			return Options{Path: filepath.Join(t.TempDir(), "s", "db"), FlushInterval: time.Second}
		},
		"bolt without cache": func() Options {
			return Options{Path: filepath.Join(t.TempDir(), "s", "db"), FlushInterval: 1,
				CacheBytes: 1}
		},
	}
	for name, options := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				opts := options()
				db, err := Open(opts)
				require.NoError(t, err)
				r := &rig{t: t, db: db, now: time.Unix(1, 0), flush: max(opts.FlushInterval, 1)}
				r.m = model{map[string]string{}, map[string]string{}}
				for range rapid.IntRange(1, 60).Draw(t, "steps") {
					r.step()
				}
				requireAll(t, r.db, r.m.visible)
				require.Equal(t, r.m.committed, r.prefix(r.next), "changelog rebuilds the state")
				r.reopen(opts)
			})
		})
	}
}

// reopen kills the DB, opens its file and finds exactly the prefix its meta names; the rest of the
// changelog leads to the committed state.
func (r *rig) reopen(opts Options) {
	if opts.Path == "" {
		require.NoError(r.t, r.db.Close())
		return
	}
	if rapid.Bool().Draw(r.t, "clean close") {
		require.NoError(r.t, r.db.Close())
	} else {
		require.NoError(r.t, r.db.Kill())
	}
	db, err := Open(opts)
	require.NoError(r.t, err)
	meta := db.Meta()
	requireAll(r.t, db, r.prefix(meta.Next))
	for _, l := range r.log[meta.Next:] {
		if l.key == "m" {
			continue
		}
		var v []byte
		if l.value != nil {
			v = []byte(*l.value)
			if v == nil {
				v = []byte{}
			}
		}
		require.NoError(r.t, db.Apply([]byte(l.key), v))
	}
	require.NoError(r.t, db.Commit(r.now, Meta{Next: r.next}))
	requireAll(r.t, db, r.m.committed)
	require.NoError(r.t, db.Close())
}
