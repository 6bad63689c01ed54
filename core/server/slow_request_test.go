package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// slowly answers after two seconds.
func slowly(_ *Server, _ context.Context, r *request) (kmsg.Response, error) {
	<-time.After(2 * time.Second)
	return r.message.ResponseKind(), nil
}

// TestSlowRequestsAreLogged: a request over the threshold is told with its parts, one that waits
// for other clients is not.
func TestSlowRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startLine(t, Limits{},
			handler{key: protocol.KeyMetadata, max: 0, handle: slowly},
			handler{key: 14, max: 0, waits: true, handle: slowly}) // SyncGroup
		c := s.dial(t)
		defer c.Close()
		send := func(req kmsg.Request) {
			_, err := c.Write(encodeRequest(7, req))
			require.NoError(t, err)
			readFrame(t, c)
			synctest.Wait()
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: new("a")}, {Topic: new("b")}}
		send(metadata)
		require.Empty(t, s.log.String(), "no threshold is set")
		s.SetSlowRequests(1999 * time.Millisecond)
		send(kmsg.NewPtrSyncGroupRequest())
		require.Empty(t, s.log.String(), "it waits for its leader")
		send(metadata)
		require.EqualValues(t, 1, s.count.slow.Load())
		for _, part := range []string{"slow request", "api=Metadata", "version=0", "total_ms=2000",
			"queue_ms=0", "local_ms=2000", "wait_ms=0", "response_ms=0", "topics=2", "suppressed=0",
			"listener=PLAINTEXT", "principal="} {
			require.Contains(t, s.log.String(), part)
		}
		s.SetSlowRequests(2 * time.Second)
		send(metadata)
		require.EqualValues(t, 1, s.count.slow.Load(), "it took just that long")
	})
}

// TestSlowRequestsDoNotFloodTheLog: what is left out in a second is counted in the next line.
func TestSlowRequestsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startLine(t, Limits{})
		c := &conn{s: s.Server, how: plaintext}
		report := func() { (&slowRequest{c: c, key: 3}).report(0, 0) }
		for range complaintsPerSecond + 4 {
			report()
		}
		require.Equal(t, complaintsPerSecond, strings.Count(s.log.String(), "slow request"))
		<-time.After(time.Second)
		report()
		require.Contains(t, s.log.String(), "suppressed=4")
	})
}
