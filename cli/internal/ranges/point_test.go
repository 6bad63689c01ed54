package ranges_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/internal/ranges"
)

func TestParseReadsEveryForm(t *testing.T) {
	now := time.Date(2026, 2, 14, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		kind  ranges.Kind
		n     int64
		at    time.Time
		group string
	}{
		"start":                   {kind: ranges.Start},
		"end":                     {kind: ranges.End},
		"42":                      {kind: ranges.Offset, n: 42},
		"0":                       {kind: ranges.Offset},
		"+10":                     {kind: ranges.After, n: 10},
		"-10":                     {kind: ranges.Before, n: 10},
		"@-1h":                    {kind: ranges.Timestamp, at: now.Add(-time.Hour)},
		"@2026-02-14T10:00Z":      {kind: ranges.Timestamp, at: now.Add(-2 * time.Hour)},
		"@2026-02-14T10:00:00Z":   {kind: ranges.Timestamp, at: now.Add(-2 * time.Hour)},
		"@2026-02-14T12:00+02:00": {kind: ranges.Timestamp, at: now.Add(-2 * time.Hour)},
		"committed(billing)":      {kind: ranges.Committed, group: "billing"},
	} {
		p, err := ranges.Parse(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want.kind, p.Kind, text)
		require.Equal(t, want.n, p.N, text)
		require.True(t, want.at.Equal(p.Time), text)
		require.Equal(t, want.group, p.Group, text)
		require.Equal(t, text, p.String())
	}
}

func TestParseRefusesAmbiguousAndWrongForms(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "is not a position",
		"begin":               "use start, end",
		"--5":                 "is not a position",
		"+-5":                 "is not a position",
		"9223372036854775808": "is not a position",
		"@2026-02-14T10:00":   "with its zone",
		"@-soon":              "write a duration",
		"committed()":         "is not a position",
	} {
		_, err := ranges.Parse(text, time.Unix(0, 0))
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzParse looks for texts that crash it, and for positions their own text does not give again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"start", "42", "+1", "-1", "@-1h", "@2026-02-14T10:00Z",
		"committed(g)", "", "@", "+", "committed(", "@-"} {
		f.Add(seed)
	}
	now := time.Unix(0, 0)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ranges.Parse(text, now)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, p.N, int64(0))
		again, err := ranges.Parse(p.String(), now)
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
