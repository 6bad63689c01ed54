package controller_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

// What a call answered is there after a power cut, and a topic is there whole or not at all.
func TestAnsweredCommandsSurvivePowerCut(t *testing.T) {
	for seed := range uint64(30) {
		mem := vfs.NewMem()
		n, err := open(t, mem, func(o *controller.Options) { o.Raft.SnapshotEntries = 4 })
		require.NoError(t, err)
		n.register(t, 1)
		var wg sync.WaitGroup
		var mu sync.Mutex
		answered := make(map[string]uuid.UUID)
		done := make(chan struct{}, 12)
		for i := range 12 {
			wg.Go(func() {
				name := fmt.Sprintf("t%d", i)
				rs, err := n.CreateTopics(t.Context(), []controller.CreateTopic{
					{Name: name, Partitions: 3, ReplicationFactor: 1,
						Configs: map[string]string{"flush": "os"}}}, false)
				defer func() { done <- struct{}{} }()
				mu.Lock()
				defer mu.Unlock()
				if err == nil && rs[0].Err == nil {
					answered[name] = rs[0].ID
				}
			})
		}
		for range seed%10 + 1 {
			<-done
		}
		mu.Lock()
		want := maps.Clone(answered)
		crashed := mem.CrashClone(seed)
		mu.Unlock()
		wg.Wait()
		n.close(t)

		again, err := open(t, crashed, nil)
		require.NoError(t, err, "seed %d", seed)
		for name, id := range want {
			got, ok := again.Image().Topic(name)
			require.True(t, ok, "seed %d: %s is lost", seed, name)
			require.Equal(t, id, got.ID)
		}
		for got := range again.Image().Topics() {
			require.Len(t, got.Partitions, 3)
			require.Equal(t, map[string]string{"flush": "os"}, got.Configs)
		}
		again.close(t)
	}
}
