package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/zeebo/xxh3"
)

// imprints makes one imprint a letter; the offsets count from 100 so that they differ from indexes.
func imprints(letters string) []imprint {
	var out []imprint
	for i, c := range letters {
		out = append(out, imprint{xxh3.Uint128{Lo: uint64(c)}, int64(100 + i)})
	}
	return out
}

func TestComparePartition(t *testing.T) {
	const noEnd = "the shadow lacks this record at its end"
	const noSuch = "the live output has no such record"
	const behind = "the live output has not come to this record"
	all := Expectation{FromStart: true, ToEnd: true}
	fromStart, toEnd, middle := Expectation{FromStart: true}, Expectation{ToEnd: true}, Expectation{}
	for name, tc := range map[string]struct {
		live, shadow  string
		want          Expectation
		reason        string
		before, after int64
	}{
		"equal":                             {"abc", "abc", all, "", 0, 0},
		"both empty":                        {"", "", all, "", 0, 0},
		"differs":                           {"abc", "abd", all, "the records differ", 0, 0},
		"shadow short":                      {"abc", "ab", all, noEnd, 0, 0},
		"shadow empty":                      {"abc", "", all, noEnd, 0, 0},
		"shadow lacks the first":            {"abc", "bc", all, "the shadow lacks this first record", 0, 0},
		"shadow long":                       {"abc", "abcd", all, behind, 0, 0},
		"live went on":                      {"abcde", "abc", fromStart, "", 0, 2},
		"a later part":                      {"abcde", "cde", toEnd, "", 2, 0},
		"repeats end at the end":            {"aaaa", "aa", toEnd, "", 2, 0},
		"a middle part":                     {"abcde", "bcd", middle, "", 1, 1},
		"middle found past a false start":   {"ababac", "abac", middle, "", 2, 0},
		"middle with a hole":                {"abcde", "bde", middle, "the records differ", 0, 0},
		"middle of something else entirely": {"abc", "x", middle, noSuch, 0, 0},
		"nothing within a middle range":     {"abc", "", middle, "", 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out OutputReport
			diff := comparePartition(&out, imprints(tc.live), imprints(tc.shadow), tc.want)
			if tc.reason != "" {
				require.NotNil(t, diff)
				require.Equal(t, tc.reason, diff.Reason)
				return
			}
			require.Nil(t, diff)
			require.Equal(t, tc.before, out.Before)
			require.Equal(t, tc.after, out.After)
			require.EqualValues(t, len(tc.shadow), out.Compared)
		})
	}
}

func TestFingerprintSeesEveryByteButTheLane(t *testing.T) {
	base := func() *kgo.Record {
		return &kgo.Record{Key: []byte("k"), Value: []byte("v"),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}
	}
	same := base()
	same.Offset = 9
	same.Headers = append(same.Headers, kgo.RecordHeader{Key: "ms-lane", Value: []byte("w1")})
	require.Equal(t, fingerprint(base()), fingerprint(same))

	for name, change := range map[string]func(*kgo.Record){
		"key null":     func(r *kgo.Record) { r.Key = nil },
		"key empty":    func(r *kgo.Record) { r.Key = []byte{} },
		"value":        func(r *kgo.Record) { r.Value = []byte("w") },
		"moved byte":   func(r *kgo.Record) { r.Key, r.Value = []byte("kv"), []byte{} },
		"time":         func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(1e6) },
		"header value": func(r *kgo.Record) { r.Headers[0].Value = nil },
		"header gone":  func(r *kgo.Record) { r.Headers = nil },
	} {
		r := base()
		change(r)
		require.NotEqual(t, fingerprint(base()), fingerprint(r), name)
	}
	null, empty := base(), base()
	null.Key, empty.Key = nil, []byte{}
	require.NotEqual(t, fingerprint(null), fingerprint(empty))
}
