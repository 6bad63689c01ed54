package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
)

// follower applies each new metadata image to the replicas, both coordinators and whatever has
// settings. The controller calls it before it answers, which is why a created topic is served as
// soon as its creator knows of it.
type follower struct {
	b      *Broker
	cancel func()
	// topics are the names and ids of the last image, by which deletions are found. Only the
	// controller's goroutine uses it.
	topics map[uuid.UUID]string
	// deleted hands deletions to forget, which waits for the group log and must not be waited for.
	deleted chan []string
	// again asks retry to open once more what had no room; ended tells it that the broker closes.
	again, ended chan struct{}
	mu           struct {
		sync.Mutex // held while an image is followed
		// complaint is the last error that was logged: a partition that stays offline is told once.
		complaint string
	}
}

// openRetry is the pause before a partition is opened again for which there was no room.
const openRetry = time.Second

func newFollower(b *Broker) *follower {
	return &follower{b: b, topics: map[uuid.UUID]string{}, deleted: make(chan []string, 1),
		again: make(chan struct{}, 1), ended: make(chan struct{})}
}

// start applies the present image and those that follow.
func (f *follower) start() error {
	f.cancel = f.b.controller.Watch(f.apply)
	f.b.background.Go(f.forget)
	f.b.background.Go(f.retry)
	return f.b.dataDir.Err() // of single partitions were logged: the rest is served
}

// close ends forget and retry. The controller is closed already.
func (f *follower) close() {
	f.cancel()
	close(f.deleted)
	close(f.ended)
}

// apply follows one image.
func (f *follower) apply(image *metadata.Image) {
	f.mu.Lock()
	f.b.latest.Store(image)
	f.toLatest()
	f.mu.Unlock()
	f.findDeleted(image)
}

// toLatest brings replicas, settings and coordinators to the newest image. The lock is held.
func (f *follower) toLatest() {
	image, complaint := f.b.latest.Load(), ""
	err := f.b.replicas.Apply(image)
	if err != nil {
		complaint = err.Error()
	}
	// Of a partition that could not be made or removed: the rest is served.
	if complaint != "" && complaint != f.mu.complaint {
		f.b.log.Error("cannot apply the metadata to all partitions", "error", complaint)
	}
	f.mu.complaint = complaint
	if errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrNoFiles) {
		select {
		case f.again <- struct{}{}:
		default:
		}
	}
	f.b.applySettings()
	f.b.groups.UpdateLeadership(f.leadership(image, group.TopicName))
	f.b.transactions.UpdateLeadership(f.leadership(image, txn.TopicName))
}

// retry opens partitions again for which there was no space on the disk, or no descriptor: nothing
// else would before the metadata changes the next time.
func (f *follower) retry() {
	for {
		select {
		case <-f.again:
		case <-f.ended:
			return
		}
		pause := time.NewTimer(openRetry)
		select {
		case <-pause.C:
		case <-f.ended:
			pause.Stop()
			return
		}
		f.mu.Lock()
		f.toLatest()
		f.mu.Unlock()
	}
}

// leadership returns how many partitions a topic has, and which of them this node leads in which
// leader epoch.
func (f *follower) leadership(image *metadata.Image, topic string) (int32, map[int32]int32) {
	leading := map[int32]int32{}
	t, ok := image.Topic(topic)
	if !ok {
		return 0, leading
	}
	for i := range t.Partitions {
		if t.Partitions[i].Leader == f.b.opts.NodeID {
			leading[int32(i)] = t.Partitions[i].LeaderEpoch
		}
	}
	return int32(len(t.Partitions)), leading
}

// findDeleted hands topics that are gone to forget.
func (f *follower) findDeleted(image *metadata.Image) {
	now := make(map[uuid.UUID]string, image.TopicCount())
	for t := range image.Topics() {
		now[t.ID] = t.Name
	}
	var gone []string
	for id, name := range f.topics {
		if _, ok := now[id]; !ok {
			gone = append(gone, name)
		}
	}
	f.topics = now
	for len(gone) > 0 {
		select {
		case f.deleted <- gone:
			return
		case more := <-f.deleted: // what forget has not taken yet
			gone = append(gone, more...)
		}
	}
}

// forget takes away the committed offsets of deleted topics.
func (f *follower) forget() {
	for names := range f.deleted {
		if code := f.b.groups.TopicsDeleted(context.Background(), names); code != 0 {
			f.b.log.Warn("committed offsets of deleted topics are still there", "topics", names,
				"code", int16(code))
		}
	}
}
