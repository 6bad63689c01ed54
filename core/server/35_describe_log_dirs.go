package server

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/storage"
)

// DescribeLogDirs (key 35), versions 1 to 5.
//
//   - One directory, with the size of each partition, and the bytes that its volume has and that
//     are free (version 4); -1 where the system does not tell. It is never cordoned (version 5).

func (s *Server) describeLogDirs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeLogDirsRequest)
	resp := response[*kmsg.DescribeLogDirsResponse](r)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = s.opts.DirPath
	if s.opts.Dir.Err() != nil {
		dir.ErrorCode = kerr.KafkaStorageError.Code
	}
	dir.TotalBytes, dir.UsableBytes = -1, -1
	if free, err := s.opts.FreeBytes(); err == nil {
		dir.UsableBytes = int64(min(free, 1<<62))
	}
	if total, err := s.opts.TotalBytes(); err == nil {
		dir.TotalBytes = int64(min(total, 1<<62))
	}
	logs := s.opts.Dir.Logs()
	slices.SortFunc(logs, func(a, b *storage.Log) int {
		x, y := a.TopicPartition(), b.TopicPartition()
		if c := strings.Compare(x.Topic, y.Topic); c != 0 {
			return c
		}
		return int(x.Partition) - int(y.Partition)
	})
	for _, l := range logs {
		tp := l.TopicPartition()
		if !wantsLogDir(req, tp) {
			continue
		}
		if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != tp.Topic {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = tp.Topic
			dir.Topics = append(dir.Topics, topic)
		}
		topic := &dir.Topics[len(dir.Topics)-1]
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size = tp.Partition, l.Size()
		topic.Partitions = append(topic.Partitions, part)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// wantsLogDir tells whether the request asks for tp; no topics at all is everything.
func wantsLogDir(req *kmsg.DescribeLogDirsRequest, tp storage.TopicPartition) bool {
	if req.Topics == nil {
		return true
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		if t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition) {
			return true
		}
	}
	return false
}
