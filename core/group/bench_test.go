package group_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/group"
)

// BenchmarkBrokerCommit is OffsetCommit by many clients over TCP to a broker on a real disk, each
// commit on its group's partition and durable before it is answered.
func BenchmarkBrokerCommit(b *testing.B) {
	c := coretest.Start(b, coretest.Options{OS: true})
	admin := kadm.NewClient(c.Client())
	created, err := admin.CreateTopic(b.Context(), 1, 1, nil, testTopic)
	require.NoError(b, err)
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			b.SetParallelism(max(clients/2, 1))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := n.Add(1)
				if int(i) > clients {
					return
				}
				cl := c.Client()
				req := commitRequest(fmt.Sprint("g", i), created.ID)
				for pb.Next() {
					resp, err := req.RequestWith(b.Context(), cl)
					if err == nil {
						err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func commitRequest(groupID string, topicID [16]byte) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = groupID, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = testTopic, topicID
	topic.Partitions = append(topic.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	return req
}

// BenchmarkLoad is the time until a coordinator with a million offset records answers.
func BenchmarkLoad(b *testing.B) {
	log := &memLog{}
	c := open(b, log, group.Options{})
	const commits, offsets = 1000, 1000
	for i := range commits {
		req := group.CommitRequest{GroupID: fmt.Sprint("g", i%100), Generation: -1, RetentionMS: -1}
		for p := range offsets {
			req.Offsets = append(req.Offsets, group.OffsetCommit{Topic: "t", Partition: int32(p)})
		}
		c.CommitOffsets(b.Context(), req)
	}
	c.Close()
	b.ReportAllocs()
	for b.Loop() {
		open(b, log, group.Options{}).Close()
	}
}
