package core_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
)

// TestLogNamesPartitionsAsKafkaDoes: in the whole life of a topic no line of the log has a value
// that is an object, such as {"Topic":"t","Partition":0} would be, and keys are in snake case.
func TestLogNamesPartitionsAsKafkaDoes(t *testing.T) {
	var log bytes.Buffer
	c := coretest.Start(t, coretest.Options{Change: func(o *core.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}})
	ctx := testContext(t)
	txnTopic(t, c, "t", 1)
	transact(t, producer(t, c, "id"), "t", "v", 1, true)
	_, err := kadm.NewClient(c.Client()).DeleteTopics(ctx, "t")
	require.NoError(t, err)
	c.Stop()
	require.Contains(t, log.String(), `"first":"t-0"`)
	for line := range strings.Lines(log.String()) {
		var values map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &values))
		for key, value := range values {
			_, isObject := value.(map[string]any)
			require.False(t, isObject, line)
			require.Equal(t, strings.ToLower(key), key, line)
		}
	}
}
