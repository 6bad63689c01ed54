package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/server"
)

// Resources of the matrix; what must not be there stays so.
const (
	matrixTopic, matrixGroup, matrixTxn = "m-topic", "m-group", "m-txn"
	missingTopic                        = "m-none"
	doomedTopic                         = "m-doomed" // made anew for each request that deletes it
)

// ensureDoomed makes the topic that a request deletes.
func ensureDoomed(admin *wire, req kmsg.Request) {
	if req.Key() != 20 {
		return
	}
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = doomedTopic, 1, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 10000
	create.Topics = append(create.Topics, one)
	ask[*kmsg.CreateTopicsResponse](admin, create)
}

// prepareMatrix makes what requests are about, and returns the topic's id.
func prepareMatrix(t *testing.T, admin *wire) [16]byte {
	t.Helper()
	topics := kmsg.NewPtrCreateTopicsRequest()
	topics.Version, topics.TimeoutMillis = 7, 10000
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = matrixTopic, 1, 1
	topics.Topics = append(topics.Topics, one)
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.Version, gone.TimeoutMillis, gone.TopicNames = 5, 10000, []string{matrixTopic}
	ask[*kmsg.DeleteTopicsResponse](admin, gone) // of a Kafka that was asked before
	made := admin.receive(topics, admin.send(topics)).(*kmsg.CreateTopicsResponse).Topics[0]
	require.Zero(t, made.ErrorCode)
	for kind, key := range map[int8]string{0: matrixGroup, 1: matrixTxn} {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, kind, []string{key}
		require.Eventually(t, func() bool {
			return ask[*kmsg.FindCoordinatorResponse](admin, find).Coordinators[0].ErrorCode == 0
		}, matrixWait, matrixTick)
	}
	require.Eventually(t, func() bool { // the coordinators may be loading
		init := kmsg.NewPtrInitProducerIDRequest()
		init.Version, init.TransactionalID = 4, str(matrixTxn)
		init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = 60000, -1, -1
		return admin.receive(init, admin.send(init)).(*kmsg.InitProducerIDResponse).ErrorCode == 0
	}, matrixWait, matrixTick)
	require.Eventually(t, func() bool {
		commit := offsetCommit(9)
		resp := admin.receive(commit, admin.send(commit)).(*kmsg.OffsetCommitResponse)
		return resp.Topics[0].Partitions[0].ErrorCode == 0
	}, matrixWait, matrixTick)
	return made.TopicID
}

func offsetCommit(version int16) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = version, matrixGroup, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = matrixTopic
	t.Partitions = append(t.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	return req
}

// matrixWait and matrixTick are for conditions that come true within milliseconds.
const (
	matrixWait = time.Minute
	matrixTick = time.Millisecond
)

// needs is one need after the other.
func needs(list ...server.Need) []server.Need { return list }

func needOf(code int16, kind metadata.ACLResourceType, op metadata.ACLOperation) server.Need {
	return server.Need{AnyOf: []server.Grant{{Kind: kind, Op: op}}, Code: code}
}

// matrixCases returns a case for each API that is served and needs something, with the needs of the
// table, and further ones for APIs that need other things for other requests.
func matrixCases(t *testing.T, w *wire, id [16]byte) []matrixCase {
	t.Helper()
	var cases []matrixCase
	for _, k := range advertised(w) {
		row, ok := server.AccessNeeds(k.ApiKey)
		require.True(t, ok, "%s has no row in accessTable", kmsg.NameForKey(k.ApiKey))
		if len(row) == 0 {
			continue
		}
		req := matrixRequest(k.ApiKey, k.MaxVersion)
		require.NotNil(t, req, "%s has no request in matrixRequest", kmsg.NameForKey(k.ApiKey))
		mc := matrixCase{name: "table", needs: row, make: func() kmsg.Request {
			return matrixRequest(k.ApiKey, k.MaxVersion)
		}}
		switch k.ApiKey {
		case 16:
			mc.secret = matrixGroup
		case 66:
			mc.secret = matrixTxn
		}
		cases = append(cases, mc)
	}
	return append(cases, furtherCases(id)...)
}

// furtherCases are requests that need something else than the row of their API.
func furtherCases(id [16]byte) []matrixCase {
	read, describe := metadata.ACLRead, metadata.ACLDescribe
	topic, group := metadata.ACLTopic, metadata.ACLGroup
	cluster, transaction := metadata.ACLCluster, metadata.ACLTransactionalID
	add := func(name string, list []server.Need, fn func() kmsg.Request) matrixCase {
		return matrixCase{name: name, needs: list, make: fn}
	}
	list := []matrixCase{
		add("by id", needs(needOf(29, topic, read)), func() kmsg.Request {
			return matrixFetch(18, "", id, -1)
		}),
		add("of a broker", needs(needOf(29, cluster, metadata.ACLClusterAction)),
			func() kmsg.Request { return matrixFetch(12, matrixTopic, id, 1) }),
		add("a transactional id", needs(needOf(53, transaction, describe)), func() kmsg.Request {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorType, req.CoordinatorKey = 3, 1, matrixTxn
			return req
		}),
		add("without a transactional id", needs(server.Need{Code: 31, AnyOf: []server.Grant{
			{Kind: cluster, Op: metadata.ACLIdempotentWrite}, {Kind: topic, Op: metadata.ACLWrite}}}),
			func() kmsg.Request {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
				return req
			}),
		add("of a client", needs(needOf(53, transaction, metadata.ACLWrite),
			needOf(29, topic, metadata.ACLWrite)), func() kmsg.Request {
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.Version, req.TransactionalID = 3, matrixTxn
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = matrixTopic, []int32{0}
			req.Topics = append(req.Topics, t)
			return req
		}),
		add("one group", needs(needOf(30, group, describe), needOf(29, topic, describe)),
			func() kmsg.Request {
				req := kmsg.NewPtrOffsetFetchRequest()
				req.Version, req.Group = 1, matrixGroup
				t := kmsg.NewOffsetFetchRequestTopic()
				t.Topic, t.Partitions = matrixTopic, []int32{0}
				req.Topics = append(req.Topics, t)
				return req
			}),
		add("by name", needs(server.Need{Code: 29, AnyOf: []server.Grant{
			{Kind: topic, Op: metadata.ACLDelete}, {Kind: cluster, Op: metadata.ACLDelete}},
		}), func() kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TimeoutMillis = 5, 1000
			req.TopicNames = []string{doomedTopic}
			return req
		}),
	}
	for _, kind := range []struct {
		resource kmsg.ConfigResourceType
		name     string
		acl      metadata.ACLResourceType
		code     int16
	}{
		{kmsg.ConfigResourceTypeBroker, "1", cluster, 31},
		{kmsg.ConfigResourceTypeGroupConfig, matrixGroup, group, 30},
	} {
		list = append(list,
			add(kind.name, needs(needOf(kind.code, kind.acl, metadata.ACLDescribeConfigs)),
				func() kmsg.Request { return matrixDescribeConfigs(kind.resource, kind.name) }),
			add(kind.name, needs(needOf(kind.code, kind.acl, metadata.ACLAlterConfigs)),
				func() kmsg.Request { return matrixAlterConfigs(kind.resource, kind.name) }))
	}
	return append(list, listingCases()...)
}

// listingCases ask for all topics, of which those that may not be seen are left out.
func listingCases() []matrixCase {
	topic, describe := metadata.ACLTopic, metadata.ACLDescribe
	return []matrixCase{
		{name: "all topics", secret: matrixTopic, needs: needs(needOf(0, topic, describe)),
			make: func() kmsg.Request {
				req := kmsg.NewPtrMetadataRequest()
				req.Version = 12
				return req
			}},
		{name: "all topics", secret: matrixTopic, needs: needs(needOf(0, topic, describe)),
			make: func() kmsg.Request {
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				req.ResponsePartitionLimit = 1000
				return req
			}},
	}
}

func matrixFetch(version int16, topic string, id [16]byte, replica int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch, req.ReplicaID = version, 1000, -1, replica
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1000, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func matrixDescribeConfigs(kind kmsg.ConfigResourceType, name string) kmsg.Request {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req.Resources = append(req.Resources, r)
	return req
}

func matrixAlterConfigs(kind kmsg.ConfigResourceType, name string) kmsg.Request {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, true
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req.Resources = append(req.Resources, r)
	return req
}

// grantsOf is a grant by numbers.
func grantsOf(kind metadata.ACLResourceType, op metadata.ACLOperation) []server.Grant {
	return []server.Grant{{Kind: kind, Op: op}}
}
