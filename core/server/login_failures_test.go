package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGuessesOfAnAddressBecomeSlow: after ten failures each further one takes twice as long, up to
// 3 s, while another address is answered as ever; after a quiet time it is forgotten.
func TestGuessesOfAnAddressBecomeSlow(t *testing.T) {
	var f loginFailures
	now := time.Unix(1_700_000_000, 0)
	fail := func(host string) time.Duration {
		wait, answered := f.failed(host, now, 100*time.Millisecond)
		answered()
		return wait
	}
	for range 10 {
		require.Equal(t, 100*time.Millisecond, fail("10.0.0.1"))
	}
	for _, want := range []time.Duration{200, 400, 800, 1600, 3000, 3000} {
		require.Equal(t, want*time.Millisecond, fail("10.0.0.1"))
	}
	require.Equal(t, 100*time.Millisecond, fail("10.0.0.2"))
	now = now.Add(10 * time.Second) // 16 failures count as 8
	require.Equal(t, 100*time.Millisecond, fail("10.0.0.1"))
	now = now.Add(time.Hour)
	require.Equal(t, 100*time.Millisecond, fail("10.0.0.1"))
	require.Equal(t, 1, f.byAddress["10.0.0.1"].count)
}

// TestGuessesOfAnAddressAreFewAtOnce: while 16 failures wait for their answers, no further password
// of the address is looked at; an IPv6 client cannot take another address of its network.
func TestGuessesOfAnAddressAreFewAtOnce(t *testing.T) {
	var f loginFailures
	now := time.Unix(1_700_000_000, 0)
	var last func()
	for i := range 16 {
		host := fmt.Sprintf("2001:db8::%x", i)
		require.True(t, f.mayTry(host))
		_, last = f.failed(host, now, time.Millisecond)
	}
	require.False(t, f.mayTry("2001:db8::ffff"))
	require.True(t, f.mayTry("2001:db8:0:1::1"))
	require.True(t, f.mayTry("10.0.0.1"))
	last()
	require.True(t, f.mayTry("2001:db8::1"))
}

// TestFailedLoginsAreRememberedOfFewAddresses: what is kept of who guesses is bounded.
func TestFailedLoginsAreRememberedOfFewAddresses(t *testing.T) {
	var f loginFailures
	now := time.Unix(1_700_000_000, 0)
	for i := range 3 * maxFailingAddresses {
		_, answered := f.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), now, time.Millisecond)
		answered()
	}
	require.LessOrEqual(t, len(f.byAddress), maxFailingAddresses+1)
	now = now.Add(time.Hour)
	_, answered := f.failed("10.9.9.9", now, time.Millisecond)
	answered()
	require.Len(t, f.byAddress, 1)
}
