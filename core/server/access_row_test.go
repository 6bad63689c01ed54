package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/auth"
)

// TestS6_AccessNeedsARow: where access is controlled, an API that nobody wrote a row for is served
// to nobody, though its handler is there: not to a superuser, and not where everything is allowed
// that no rule speaks of. Where access is not controlled it is.
func TestS6_AccessNeedsARow(t *testing.T) {
	const key = 38 // CreateDelegationToken
	_, hasRow := accessTable[key]
	require.False(t, hasRow, "the test needs an API without a row")
	for name, c := range map[string]struct {
		authorizer *auth.Authorizer
		served     bool
	}{
		"not controlled": {nil, true},
		"closed":         {auth.NewAuthorizer(nil, false), false},
		"open by default, everybody a superuser": {
			auth.NewAuthorizer(map[string]bool{"User:ANONYMOUS": true}, true), false},
	} {
		handled := false
		s := startLine(t, Limits{}, handler{key: key, max: 3,
			handle: func(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
				handled = true
				return r.message.ResponseKind(), nil
			}})
		s.opts.Authorizer = c.authorizer
		conn := s.dial(t)
		_, err := conn.Write(encodeRequest(1, apiVersionsRequest(0))) // which has a row
		require.NoError(t, err)
		readFrame(t, conn)
		req := kmsg.NewPtrCreateDelegationTokenRequest()
		req.SetVersion(1)
		_, err = conn.Write(encodeRequest(2, req))
		require.NoError(t, err)
		if c.served {
			id, _ := readFrame(t, conn)
			require.Equal(t, int32(2), id, name)
		} else {
			requireClosed(t, conn)
			require.Eventually(t, func() bool {
				return strings.Contains(s.log.String(), "CreateDelegationToken has no rule of access")
			}, time.Minute, time.Millisecond, name)
		}
		require.Equal(t, c.served, handled, name)
	}
}
