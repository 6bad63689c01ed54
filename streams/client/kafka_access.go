package client

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicAccess is a topic as whoever asks may use it.
type TopicAccess struct {
	Partitions int32
	// Read and Write are true, too, where the broker does not tell.
	Read, Write bool
}

// Kafka's numbers of operations, which are bits of what a broker says is allowed.
const (
	operationRead  = 3
	operationWrite = 4
)

// Access asks for all topics that may be seen, and for what may be done with them.
func Access(ctx context.Context, cl *kgo.Client) (map[string]TopicAccess, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	answer, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", domain(err))
	}
	topics := map[string]TopicAccess{}
	for _, t := range answer.Topics {
		if t.Topic == nil || len(t.Partitions) == 0 {
			continue
		}
		told := t.AuthorizedOperations != math.MinInt32
		may := func(operation int) bool { return !told || t.AuthorizedOperations&(1<<operation) != 0 }
		topics[*t.Topic] = TopicAccess{Partitions: int32(len(t.Partitions)),
			Read: may(operationRead), Write: may(operationWrite)}
	}
	return topics, nil
}
