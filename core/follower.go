package core

import (
	"context"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
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
	// complaint is the last error that was logged: a partition that stays offline is told once.
	complaint string
}

func newFollower(b *Broker) *follower {
	return &follower{b: b, topics: map[uuid.UUID]string{}, deleted: make(chan []string, 1)}
}

// start applies the present image and those that follow.
func (f *follower) start() error {
	f.cancel = f.b.controller.Watch(f.apply)
	f.b.background.Go(f.forget)
	return f.b.dataDir.Err() // of single partitions were logged: the rest is served
}

// close ends forget. The controller is closed already.
func (f *follower) close() {
	f.cancel()
	close(f.deleted)
}

// apply follows one image.
func (f *follower) apply(image *metadata.Image) {
	complaint := ""
	if err := f.b.replicas.Apply(image); err != nil {
		complaint = err.Error()
	}
	// Of a partition that could not be made or removed: the rest is served.
	if complaint != "" && complaint != f.complaint {
		f.b.log.Error("cannot apply the metadata to all partitions", "error", complaint)
	}
	f.complaint = complaint
	f.b.latest.Store(image)
	f.b.applySettings()
	f.b.groups.UpdateLeadership(f.leadership(image, group.TopicName))
	f.b.transactions.UpdateLeadership(f.leadership(image, txn.TopicName))
	f.findDeleted(image)
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
