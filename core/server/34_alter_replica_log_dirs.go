package server

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/replica"
)

// AlterReplicaLogDirs (key 34), versions 1 and 2 (KIP-113).
//
//   - There is one directory: a replica is where it shall be already, or the directory is
//     LOG_DIR_NOT_FOUND.

func (s *Server) alterReplicaLogDirs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterReplicaLogDirsRequest)
	resp := response[*kmsg.AlterReplicaLogDirsResponse](r)
	for i := range req.Dirs {
		for j := range req.Dirs[i].Topics {
			in := &req.Dirs[i].Topics[j]
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = in.Topic
			for _, index := range in.Partitions {
				out := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				out.Partition = index
				out.ErrorCode = s.placeReplica(req.Dirs[i].Dir, in.Topic, index)
				topic.Partitions = append(topic.Partitions, out)
			}
			resp.Topics = append(resp.Topics, topic)
		}
	}
	return resp, nil
}

// placeReplica returns the code of a wish to have a replica in a directory. A partition that is not
// here yet is REPLICA_NOT_AVAILABLE in Kafka too, which keeps the wish for later; here there is
// nothing to keep.
func (s *Server) placeReplica(dir, topic string, partition int32) int16 {
	if filepath.Clean(dir) != filepath.Clean(s.opts.DirPath) {
		return kerr.LogDirNotFound.Code
	}
	_, err := s.lookup(topic, uuid.Nil, false, partition)
	if errors.Is(err, replica.ErrUnknownPartition) {
		return kerr.ReplicaNotAvailable.Code
	}
	return errorCode(err)
}
