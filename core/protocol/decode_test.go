package protocol_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// decoded lists the keys whose bodies kmsg decodes.
var decoded = []int16{2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 35,
	37, 42, 44, 47, 60, 74, 75}

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

// FuzzDecodeRequest: no body of any key and version panics, or takes memory out of proportion.
func FuzzDecodeRequest(f *testing.F) {
	for i, key := range decoded {
		req := kmsg.RequestForKey(key)
		for version := range req.MaxVersion() + 1 {
			req.SetVersion(version)
			f.Add(uint8(i), version, req.AppendTo(nil))
		}
		f.Add(uint8(i), req.MaxVersion(), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, at uint8, version int16, body []byte) {
		key := decoded[int(at)%len(decoded)]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = protocol.DecodeRequest(key, version, body)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+200*len(body)),
			"%s v%d", protocol.KeyName(key), version)
	})
}
