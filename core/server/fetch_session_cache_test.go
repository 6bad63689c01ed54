package server

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/protocol"
)

// sessionOf is a session of n partitions that no cache has yet.
func sessionOf(n int) *fetchSession {
	s := newFetchSession(false)
	for i := range n {
		s.addLocked("t", uuid.Nil, &protocol.FetchPartition{Index: int32(i)})
	}
	return s
}

// checkSums recomputes what the cache counts.
func checkSums(t *testing.T, c *fetchSessionCache) {
	t.Helper()
	listed, partitions, bytes := 0, 0, int64(0)
	for s := c.mu.oldest; s != nil; s = s.cached.newer {
		listed++
		partitions += s.cached.partitions
		bytes += s.cached.bytes
		require.Same(t, s, c.mu.byID[s.id])
		if s.cached.newer != nil {
			require.False(t, s.cached.newer.cached.lastUsed.Before(s.cached.lastUsed))
		}
	}
	require.Len(t, c.mu.byID, listed)
	require.Equal(t, partitions, c.mu.partitions)
	require.Equal(t, bytes, c.mu.bytes)
}

// TestKIP227_FullCacheEvicts is the table of who gives way to whom, as Kafka decides it.
func TestKIP227_FullCacheEvicts(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for _, v := range []struct {
		name string
		// created and used are the minutes at which two sessions of 5 and 3 partitions were.
		created, used [2]float64
		at            float64 // the minute of the third one
		size          int     // of the third one
		gone          int     // which of the two gives way, -1 for none
	}{
		{"both new and in use", [2]float64{0, 0}, [2]float64{1, 1}, 1.5, 100, -1},
		{"the one not used for two minutes", [2]float64{0, 0}, [2]float64{1, 2}, 3.1, 1, 0},
		{"two minutes are not over", [2]float64{1, 1}, [2]float64{1, 2}, 2.9, 1, -1},
		{"old and smaller", [2]float64{0, 0}, [2]float64{4, 4}, 5, 4, 1},
		{"old, but not smaller", [2]float64{0, 0}, [2]float64{4, 4}, 5, 3, -1},
		{"the smaller one is too new", [2]float64{0, 4}, [2]float64{4, 4}, 5, 4, -1},
		{"the smaller one is too new, the other gives way", [2]float64{0, 4}, [2]float64{4, 4}, 5, 6, 0},
	} {
		t.Run(v.name, func(t *testing.T) {
			minute := func(m float64) time.Time {
				return start.Add(time.Duration(m * float64(time.Minute)))
			}
			c := newFetchSessionCache(2, fetchSessionMemory)
			two := [2]*fetchSession{sessionOf(5), sessionOf(3)}
			for i, s := range two {
				require.True(t, c.add(s, minute(v.created[i])))
			}
			for i, s := range two {
				n, bytes := s.size()
				require.True(t, c.touch(s, n, bytes, minute(v.used[i])))
			}
			checkSums(t, c)
			third := sessionOf(v.size)
			require.Equal(t, v.gone >= 0, c.add(third, minute(v.at)))
			for i, s := range two {
				require.Equal(t, i == v.gone, c.find(s.id) == nil, "session %d", i)
			}
			require.Equal(t, v.gone >= 0, third.id != 0)
			checkSums(t, c)
		})
	}
}

// TestFetchSessionMemoryIsBounded: whatever clients name, sessions hold no more than their bound.
func TestFetchSessionMemoryIsBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := newFetchSessionCache(1000, 10*sessionPartBytes+100)
	small := sessionOf(5)
	require.True(t, c.add(small, now))
	require.False(t, c.add(sessionOf(6), now), "beyond the bound")
	require.True(t, c.add(sessionOf(4), now))
	n, bytes := small.size()
	require.False(t, c.touch(small, n+5, bytes+5*sessionPartBytes, now), "grown beyond it")
	require.Nil(t, c.find(small.id))
	checkSums(t, c)
	for range 5 {
		c.add(sessionOf(3), now)
	}
	require.LessOrEqual(t, c.mu.bytes, c.memory)
	checkSums(t, c)
}

// TestKIP227_EpochWrapsToOne: 0 and -1 have a meaning of their own.
func TestKIP227_EpochWrapsToOne(t *testing.T) {
	require.Equal(t, int32(2), nextEpoch(1))
	require.Equal(t, int32(1<<31-1), nextEpoch(1<<31-2))
	require.Equal(t, int32(1), nextEpoch(1<<31-1))
}
