package client_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/client"
)

// listing gives every member the list of all claims.
func listing(claims map[string][]byte) map[string][]byte {
	var all []string
	for _, c := range claims {
		all = append(all, string(c))
	}
	slices.Sort(all)
	out := map[string][]byte{}
	for id := range claims {
		out[id] = []byte(strings.Join(all, " "))
	}
	return out
}

func member(t *testing.T, c client.Cluster, name, instance string) client.Member {
	t.Helper()
	m, err := c.Join(client.GroupOptions{Group: "crew", Instance: instance,
		Session: 10 * time.Second, Topics: []string{"a"}, Claim: func() []byte { return []byte(name) },
		Assign: listing})
	require.NoError(t, err)
	return m
}

// until calls Next of all members, together, until each has got the list.
func until(t *testing.T, want string, members map[string]client.Member) {
	t.Helper()
	got := make(chan error, len(members))
	for name, m := range members {
		go func() {
			for {
				data, err := m.Next(ctxOf(t))
				if err == nil && string(data) != want {
					continue
				}
				if err != nil {
					err = fmt.Errorf("%s: %w", name, err)
				}
				got <- err
				return
			}
		}()
	}
	for range members {
		require.NoError(t, <-got)
	}
}

// conformMembers: members that come and go are all in the next generation; a static member that
// comes back is who it was, and nobody is asked to join again.
func conformMembers(t *testing.T, c client.Cluster) {
	create(t, c, "a", 1)
	members := map[string]client.Member{"x": member(t, c, "x", "one")}
	until(t, "x", members)
	members["y"] = member(t, c, "y", "")
	until(t, "x y", members)
	members["x"].Rejoin()
	until(t, "x y", members)

	members["x"].Close(ctxOf(t), false) // away, as for a restart
	short, cancel := context.WithTimeout(ctxOf(t), 1500*time.Millisecond)
	defer cancel()
	_, err := members["y"].Next(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing moves")
	members["x"] = member(t, c, "x again", "one")
	until(t, "x y", map[string]client.Member{"x": members["x"]})

	members["y"].Close(ctxOf(t), true)
	delete(members, "y")
	until(t, "x again", members)
	for _, m := range slices.Collect(maps.Values(members)) {
		m.Close(ctxOf(t), true)
	}
}
