package server_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// FuzzRequests sends bodies of every key and version to a whole broker: no handler may panic, and
// others are served on. Its seeds are the golden requests and some edited ones.
func FuzzRequests(f *testing.F) {
	c := coretest.Start(f, coretest.Options{})
	newTopic(f, c, "t", 1, nil)
	goldenBodies(f, func(key, version int16, body []byte) {
		f.Add(uint8(key), uint8(version), body)
	})
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

// goldenBodies calls add with the bodies of the golden requests.
func goldenBodies(f *testing.F, add func(key, version int16, body []byte)) {
	files, err := filepath.Glob("testdata/golden/*.txt")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		var key int16
		_, err := fmt.Sscanf(filepath.Base(file), "%d_", &key)
		require.NoError(f, err)
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		for line := range strings.Lines(string(text)) {
			var version int16
			var kind, name, digits string
			_, err := fmt.Sscanf(line, "v%d %s %s %s", &version, &kind, &name, &digits)
			require.NoError(f, err)
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			header := 2 + 2 + 4 + 2 + 2 // with a client id of two letters
			if req.IsFlexible() {
				header += 5 // one tag
			}
			if frame, err := hex.DecodeString(digits); err == nil && kind == "request" {
				add(key, version, frame[header:])
			}
		}
	}
}

// FuzzConversations sends several golden requests, some of them edited, in one go on one
// connection: the answers that come keep the order of the requests, and nothing panics. Each step
// is three bytes: which request, where to edit it, and what to put there, 0 for no edit.
func FuzzConversations(f *testing.F) {
	c := coretest.Start(f, coretest.Options{})
	newTopic(f, c, "t", 1, nil)
	var frames [][]byte
	goldenBodies(f, func(key, version int16, body []byte) {
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		client := noClient(-1)
		if req.IsFlexible() {
			client = append(client, 0)
		}
		frames = append(frames, rawFrame(key, version, 0, client, body))
	})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 9, 0, 0, 40, 3, 7})
	f.Add([]byte{200, 50, 1, 100, 0, 0, 100, 0, 0, 30, 0, 0, 60, 9, 255})
	f.Fuzz(func(t *testing.T, steps []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := c.Dialer()(ctx, "tcp", c.Addr())
		require.NoError(t, err)
		defer conn.Close()
		var all []byte
		id := uint32(0)
		for ; len(steps) >= 3 && id < 12; steps = steps[3:] {
			frame := append([]byte(nil), frames[int(steps[0])*len(frames)/256]...)
			if steps[2] != 0 {
				frame[12+int(steps[1])%(len(frame)-12)] = steps[2]
			}
			id++
			binary.BigEndian.PutUint32(frame[8:], id)
			all = append(all, frame...)
		}
		_, _ = conn.Write(all) // it may be closed before all is written
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		last := uint32(0)
		for {
			var head [8]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				break
			}
			answered := binary.BigEndian.Uint32(head[4:])
			require.Greater(t, answered, last, "out of order")
			require.LessOrEqual(t, answered, id)
			last = answered
			rest := int64(binary.BigEndian.Uint32(head[:])) - 4
			if _, err := io.CopyN(io.Discard, conn, rest); err != nil {
				break
			}
		}
		require.False(t, strings.Contains(c.Log(), "panicked"), c.Log())
	})
}
