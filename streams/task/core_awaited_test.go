package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRuleB27_AnInputThatHoldsOthersUpIsNamed: a has a record, b may still have an earlier one.
func TestRuleB27_AnInputThatHoldsOthersUpIsNamed(t *testing.T) {
	c := newCoreTest(t, stamped(0), 0)
	a, b := Awaited{Topic: "a"}, Awaited{Topic: "b"}
	list, held := c.Awaited()
	require.Equal(t, []Awaited{a, b}, list, "neither has records")
	require.False(t, held)

	c.add("a", "k", "a5", 5)
	require.Empty(t, c.run())
	list, held = c.Awaited()
	require.Equal(t, []Awaited{b}, list)
	require.True(t, held)

	c.add("b", "k", "b9", 9)
	require.Equal(t, []string{"a5 at 5"}, c.run())
	list, held = c.Awaited()
	require.Equal(t, []Awaited{a}, list)
	require.True(t, held)
	c.Idle("a", 0)
	list, held = c.Awaited()
	require.Empty(t, list, "it is decided to go on without a")
	require.False(t, held)
}
