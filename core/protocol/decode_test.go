package protocol_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// decoded lists all keys that kmsg has: those that are not served yet may be tomorrow.
var decoded = func() (keys []int16) {
	for key := range int16(128) {
		if kmsg.RequestForKey(key) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}()

func TestDecodeRequestKnowsEveryVersion(t *testing.T) {
	for _, key := range decoded {
		req := kmsg.RequestForKey(key)
		for version := range req.MaxVersion() + 1 {
			req.SetVersion(version)
			got, err := protocol.DecodeRequest(key, version, req.AppendTo(nil))
			require.NoError(t, err, "%s v%d", protocol.KeyName(key), version)
			require.Equal(t, version, got.GetVersion())
		}
		_, err := protocol.DecodeRequest(key, req.MaxVersion()+1, nil)
		require.ErrorIs(t, err, protocol.ErrUnsupported)
	}
	_, err := protocol.DecodeRequest(999, 0, nil)
	require.ErrorIs(t, err, protocol.ErrUnsupported)
}

// goldenRequests calls add with the bodies of the golden requests of core/server.
func goldenRequests(f *testing.F, add func(key, version int16, body []byte)) {
	files, err := filepath.Glob("../server/testdata/golden/*.txt")
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
			frame, err := hex.DecodeString(digits)
			require.NoError(f, err)
			if kind == "request" {
				_, body, err := protocol.ParseHeader(frame, func(key, version int16) bool {
					from := protocol.FlexibleFrom(key)
					return from >= 0 && version >= from
				})
				require.NoError(f, err)
				add(key, version, body)
			}
		}
	}
}

// maxGrowth bounds how many bytes the decoded form of a request takes for each of its own.
const maxGrowth = 64

// FuzzDecodeRequest: no body of any key and version panics, or takes memory out of proportion, and
// what is decoded can be written and decoded again to the same.
func FuzzDecodeRequest(f *testing.F) {
	goldenRequests(f, func(key, version int16, body []byte) { f.Add(uint8(key), version, body) })
	for _, key := range decoded {
		req := kmsg.RequestForKey(key)
		f.Add(uint8(key), req.MaxVersion(), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0})
		f.Add(uint8(key), int16(0), append([]byte{0, 0, 0, 200}, make([]byte, 800)...))
	}
	f.Fuzz(func(t *testing.T, key uint8, version int16, body []byte) {
		if key >= 128 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req, err := protocol.DecodeRequest(int16(key), version, body)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10+maxGrowth*len(body)),
			"%s v%d", protocol.KeyName(int16(key)), version)
		if err != nil {
			return
		}
		text := req.AppendTo(nil)
		again, err := protocol.DecodeRequest(int16(key), version, text)
		require.NoError(t, err)
		require.Equal(t, text, again.AppendTo(nil))
	})
}
