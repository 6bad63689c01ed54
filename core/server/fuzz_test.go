package server_test

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// FuzzRequests sends bodies of every key and version to a whole broker: no handler may panic, and
// others are served on. Its seeds are a valid request of each and some edited ones.
func FuzzRequests(f *testing.F) {
	c := coretest.Start(f, coretest.Options{})
	newTopic(f, c, "t", 1, nil)
	for _, k := range advertised(dial(f, c)) {
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			req := kmsg.RequestForKey(k.ApiKey)
			req.SetVersion(version)
			f.Add(uint8(k.ApiKey), uint8(version), req.AppendTo(nil))
		}
	}
	f.Add(uint8(0), uint8(9), produceRequest(9, "t", [16]byte{}, 0,
		batch(f, 2, record.BuilderOptions{})).AppendTo(nil))
	f.Add(uint8(1), uint8(12), fetchRequest(12, "t", [16]byte{}, 0, 0).AppendTo(nil))
	f.Add(uint8(19), uint8(7), []byte{3, 2, 't', 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 9, 1, 0})
	f.Fuzz(func(t *testing.T, key, version uint8, body []byte) {
		if len(body) > 8<<10 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := c.Dialer()(ctx, "tcp", c.Addr())
		require.NoError(t, err)
		defer conn.Close()
		req := kmsg.RequestForKey(int16(key))
		flexible := false
		if req != nil {
			req.SetVersion(int16(version))
			flexible = req.IsFlexible()
		}
		frame := []byte{0, 0, 0, 0, 0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff}
		if flexible {
			frame = append(frame, 0)
		}
		frame = append(frame, body...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		_, err = conn.Write(frame)
		require.NoError(t, err)
		// An answer, a hang-up, or a request that waits; it must not be held up for this.
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		_, _ = io.ReadFull(conn, frame[:4])
		require.False(t, strings.Contains(c.Log(), "panicked"), c.Log())
	})
}
