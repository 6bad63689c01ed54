package protocol_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/protocol"
)

func flexible(key, version int16) bool {
	from := protocol.FlexibleFrom(key)
	return from >= 0 && version >= from
}

// TestParseHeader has its bytes written out by hand from the layout in Kafka's protocol guide:
// key, version, correlation id, client id as i16 string even when flexible, tag buffer.
func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		name, frame  string
		key, version int16
		client, body string
	}{
		{"ApiVersions v0", "0012 0000 00000007 0002 6b67", 18, 0, "kg", ""},
		{"null client id", "0012 0000 00000007 ffff", 18, 0, "", ""},
		{"negative client id is null", "0003 0001 00000007 fffe 00000000", 3, 1, "", "00000000"},
		{"flexible: i16 client id, then tags", "0012 0003 00000007 0002 6b67 00 02",
			18, 3, "kg", "02"},
		{"flexible with a null client id has tags too", "0012 0003 00000007 ffff 00 aa",
			18, 3, "", "aa"},
		{"unknown tags are skipped", "0012 0003 00000007 ffff 02 05 02 aabb 81 01 01 cc ee",
			18, 3, "", "ee"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, body, err := protocol.ParseHeader(unhex(t, c.frame), flexible)
			require.NoError(t, err)
			require.Equal(t, c.key, h.Key)
			require.Equal(t, c.version, h.Version)
			require.Equal(t, int32(7), h.CorrelationID)
			require.Equal(t, c.client, string(h.ClientID))
			require.Equal(t, c.body, hex.EncodeToString(body))
		})
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	for _, frame := range []string{
		"", "0012", "0012 0000 0000", "0012 0000 00000007", "0012 0000 00000007 0005 6b67",
		"0012 0003 00000007 ffff",                       // no tag buffer
		"0012 0003 00000007 ffff ffffffffff",            // varint of more than 32 bits
		"0012 0003 00000007 ffff ffffffffff01",          // varint of six bytes
		"0012 0003 00000007 ffff 01 00 ffffffff0f",      // tag of 4 GiB
		"0012 0003 00000007 ffff ffffffff0f 00 00 0000", // 2^32-1 tags
	} {
		_, _, err := protocol.ParseHeader(unhex(t, frame), flexible)
		require.ErrorIs(t, err, protocol.ErrMalformed, frame)
	}
}

// TestResponseHeader: tags follow the correlation id in flexible versions, but never in
// ApiVersions (KIP-511).
func TestResponseHeader(t *testing.T) {
	b := protocol.AppendResponseHeader(nil, protocol.KeyMetadata, 7, true)
	b = append(b, 0xaa)
	protocol.FinishFrame(b, 0, 3)
	require.Equal(t, unhex(t, "00000009 00000007 00 aa"), b)
	b = protocol.AppendResponseHeader(nil, protocol.KeyApiVersions, 7, true)
	protocol.FinishFrame(b, 0, 0)
	require.Equal(t, unhex(t, "00000004 00000007"), b)
}

// TestFlexibleFrom has its values from "flexibleVersions" in Kafka's message definitions.
func TestFlexibleFrom(t *testing.T) {
	for key, from := range map[int16]int16{
		0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3,
		19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 32: 4, 33: 2, 35: 2, 37: 2, 42: 2, 44: 1, 47: -1, 60: 0,
		74: 0, 75: 0, 17: -1, 126: -1,
	} {
		require.Equal(t, from, protocol.FlexibleFrom(key), "key %d", key)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(unhex(f, "0012 0003 00000007 0002 6b67 00 02"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := protocol.ParseHeader(frame, flexible)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(body)+len(h.ClientID)+10, len(frame))
	})
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits []byte
	for _, c := range []byte(s) {
		if c != ' ' {
			digits = append(digits, c)
		}
	}
	b, err := hex.DecodeString(string(digits))
	require.NoError(t, err)
	return b
}
