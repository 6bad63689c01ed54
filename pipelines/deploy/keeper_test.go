package deploy

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// matcher finds nothing new and counts how often it was asked.
type matcher struct {
	Instance
	asked int
}

func (m *matcher) Status() Status { return Status{State: Running} }

func (m *matcher) Matches(context.Context) (map[string][]string, bool, error) {
	m.asked++
	return nil, false, nil
}

// TestOrdersComeBeforeNewTopics: an order that waits may stop what would be applied again.
func TestOrdersComeBeforeNewTopics(t *testing.T) {
	m := &matcher{}
	k := &keeper{number: 1, running: &process{revision: Revision{Number: 1}, instance: m,
		done: make(chan struct{})}}
	k.mu.orders = []order{{forget: true}}
	k.match(t.Context())
	require.Zero(t, m.asked)
	k.mu.orders = nil
	k.match(t.Context())
	require.Equal(t, 1, m.asked)
}

// TestForgottenPipelineHasNoLastWord: it would be said under no name.
func TestForgottenPipelineHasNoLastWord(t *testing.T) {
	client, err := kgo.NewClient()
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be written
	k := &keeper{name: "p", unsaid: true, last: Status{Name: "p", State: Done},
		opts: ReconcilerOptions{Logger: slog.New(slog.DiscardHandler), Store: &Store{client: client,
			now: time.Now}}}
	k.carryOut(ctx, order{forget: true})
	k.report(ctx)
	require.False(t, k.unsaid)
	require.Zero(t, k.lastAt)
}
