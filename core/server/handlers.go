package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// request is one decoded request on its way through a handler.
type request struct {
	// message is the decoded body. Its byte slices alias the frame, which is never reused for
	// these requests: they may be kept.
	message kmsg.Request
	// version is the version of the request and of its answer.
	version int16
	// clientID is the client's name for itself, "" when it sent none.
	clientID string
	// clientHost is the peer's address without its port.
	clientHost string
	// inMemory tells that the client is in this process.
	inMemory bool
}

// handlerFunc answers one request, blocking as long as that takes. ctx ends when the connection
// or the server closes; the answer is then of no use to anyone. An error closes the connection
// without an answer, so it is for requests that cannot be answered, not for failures that have a
// code.
type handlerFunc func(s *Server, ctx context.Context, r *request) (kmsg.Response, error)

// handler is one row of the table of APIs.
type handler struct {
	// key is the API's number.
	key int16
	// min and max are the versions that are advertised, both inclusive.
	min, max int16
	// served is the first version that is really served; it differs from min for Produce only,
	// and 0 stands for min.
	served int16
	// waits tells that it may wait for other clients, so that one which hangs up meanwhile must
	// be noticed.
	waits bool
	// handle answers it; nil for Produce and Fetch, which conn.go dispatches itself.
	handle handlerFunc
}

// handlers lists every API but those of groups and transactions, see handlers_group.go and
// handlers_transaction.go. The ranges are
// those of Kafka 4.3: clients guess a broker's age from them, so a mix of releases misleads them.
var handlers = []handler{
	// librdkafka before 2.8 turns compression off when Produce starts above 0 (KAFKA-18659).
	{key: protocol.KeyProduce, min: 0, max: 13, served: 3},
	{key: protocol.KeyFetch, min: 4, max: 18},
	{key: protocol.KeyListOffsets, min: 1, max: 11, handle: (*Server).listOffsets},
	{key: protocol.KeyMetadata, min: 0, max: 13, handle: (*Server).metadata},
	{key: protocol.KeyApiVersions, min: 0, max: 4, handle: (*Server).apiVersions},
	{key: protocol.KeyCreateTopics, min: 2, max: 7, handle: (*Server).createTopics},
	{key: protocol.KeyDeleteTopics, min: 1, max: 6, handle: (*Server).deleteTopics},
	{key: protocol.KeyDeleteRecords, min: 0, max: 2, handle: (*Server).deleteRecords},
	{key: protocol.KeyOffsetForLeaderEpoch, min: 2, max: 4,
		handle: (*Server).offsetForLeaderEpoch},
	{key: protocol.KeyDescribeConfigs, min: 1, max: 4, handle: (*Server).describeConfigs},
	{key: protocol.KeyAlterConfigs, min: 0, max: 2, handle: (*Server).alterConfigs},
	{key: protocol.KeyDescribeLogDirs, min: 1, max: 5, handle: (*Server).describeLogDirs},
	{key: protocol.KeyCreatePartitions, min: 0, max: 3, handle: (*Server).createPartitions},
	{key: protocol.KeyIncrementalAlterConfigs, min: 0, max: 1,
		handle: (*Server).incrementalAlterConfigs},
	{key: protocol.KeyDescribeCluster, min: 0, max: 2, handle: (*Server).describeCluster},
	{key: protocol.KeyListConfigResources, min: 0, max: 1,
		handle: (*Server).listConfigResources},
	{key: protocol.KeyDescribeTopicPartitions, min: 0, max: 0,
		handle: (*Server).describeTopicPartitions},
}

// handlerTable finds handlers by api key.
type handlerTable struct {
	// rows are sorted by key, as ApiVersions lists them.
	rows []handler
	// byKey holds the index in rows plus one, 0 for none.
	byKey [maxKey + 1]uint8
	// flexibleFrom is the first flexible version of each key, -1 for none.
	flexibleFrom [maxKey + 1]int16
}

// maxKey is the largest api key that a row may have.
const maxKey = 127

// response makes the empty answer of req in its version, with its defaults set.
func response[T kmsg.Response](r *request) T {
	resp := r.message.ResponseKind()
	return resp.(T)
}
