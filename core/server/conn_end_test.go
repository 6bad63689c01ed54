package server

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientThatVanishesIsNoComplaint: who ends with answers on the way did nothing wrong.
func TestClientThatVanishesIsNoComplaint(t *testing.T) {
	s := startLine(t, Limits{}, handlers...)
	frame := encodeRequest(1, apiVersionsRequest(0))
	for range 20 {
		conn := s.dial(t)
		for range 50 {
			_, err := conn.Write(frame)
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	require.NotContains(t, s.log.String(), "closed a connection")
}
