package operator_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// TestRuleB24_TimersFireInOrderAndSurviveARestart compares with a list that is searched.
func TestRuleB24_TimersFireInOrderAndSurviveARestart(t *testing.T) {
	type timer struct {
		at  int64
		key string
	}
	rapid.Check(t, func(t *rapid.T) {
		stores := streamstest.NewStores()
		width := rapid.Int64Range(1, 12).Draw(t, "width")
		timers, err := operator.NewTimers(stores.Windows("timers"), width)
		require.NoError(t, err)
		var model []timer
		s := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			x := timer{s + rapid.Int64Range(-3, 30).Draw(t, "at"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				timers, err = operator.NewTimers(stores.Windows("timers"), width)
				require.NoError(t, err)
			case 1:
				require.NoError(t, timers.Delete(x.at, []byte(x.key)))
				model = slices.DeleteFunc(model, func(y timer) bool { return x == y })
			case 2:
				s += rapid.Int64Range(0, 20).Draw(t, "move")
				slices.SortFunc(model, func(x, y timer) int {
					return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.key, y.key))
				})
				var want, got []string
				for len(model) > 0 && model[0].at <= s {
					want = append(want, fmt.Sprint(model[0]))
					model = model[1:]
				}
				require.NoError(t, timers.Fire(s, func(at int64, key []byte) error {
					got = append(got, fmt.Sprint(timer{at, string(key)}))
					return nil
				}))
				require.Equal(t, want, got)
			default:
				require.NoError(t, timers.Set(x.at, []byte(x.key)))
				if !slices.Contains(model, x) {
					model = append(model, x)
				}
			}
		}
	})
}
