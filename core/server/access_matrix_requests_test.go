package server_test

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// matrixRequest returns a request of an API about the resources of the matrix, nil for an API that
// is not known here.
func matrixRequest(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	req.(interface{ Default() }).Default()
	switch {
	case fillData(req), fillGroups(req), fillTransactions(req), fillTopics(req), fillCluster(req):
		return req
	}
	return nil
}

func fillData(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Version, r.Acks, r.TimeoutMillis, r.TransactionID = 11, -1, 1000, str(matrixTxn)
		t := kmsg.NewProduceRequestTopic()
		t.Topic = matrixTopic
		p := kmsg.NewProduceRequestTopicPartition()
		b := record.NewBuilder(record.BuilderOptions{Idempotent: true, Transactional: true,
			ProducerID: 1})
		b.Append(record.Record{Value: []byte("v"), Timestamp: 1})
		p.Records, _ = b.Build()
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	case *kmsg.FetchRequest:
		*r = *matrixFetch(12, matrixTopic, [16]byte{}, -1)
	case *kmsg.ListOffsetsRequest:
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = matrixTopic
		t.Partitions = append(t.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.MetadataRequest:
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = str(matrixTopic)
		r.Topics, r.AllowAutoTopicCreation = append(r.Topics, t), false
	case *kmsg.OffsetForLeaderEpochRequest:
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = matrixTopic
		t.Partitions = append(t.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.DeleteRecordsRequest:
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = missingTopic
		t.Partitions = append(t.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.DescribeProducersRequest:
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = matrixTopic, []int32{0}
		r.Topics = append(r.Topics, t)
	case *kmsg.DescribeTopicPartitionsRequest:
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = matrixTopic
		r.Topics, r.ResponsePartitionLimit = append(r.Topics, t), 10
	default:
		return false
	}
	return true
}

func fillGroups(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		*r = *offsetCommit(9)
	case *kmsg.OffsetFetchRequest:
		r.Version = 9
		g := kmsg.NewOffsetFetchRequestGroup()
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = matrixTopic, []int32{0}
		g.Group, g.Topics, g.MemberEpoch = matrixGroup, append(g.Topics, t), -1
		r.Groups = append(r.Groups, g)
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKeys = []string{matrixGroup}
	case *kmsg.JoinGroupRequest: // refused for its timeout, so that nobody waits
		r.Group, r.ProtocolType, r.SessionTimeoutMillis = matrixGroup, "consumer", 1
		r.Protocols = append(r.Protocols, kmsg.NewJoinGroupRequestProtocol())
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID = matrixGroup, "nobody"
	case *kmsg.LeaveGroupRequest:
		r.Group = matrixGroup
		r.Members = append(r.Members, kmsg.NewLeaveGroupRequestMember())
	case *kmsg.SyncGroupRequest:
		r.Group, r.MemberID = matrixGroup, "nobody"
		r.ProtocolType, r.Protocol = str("consumer"), str("range")
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{matrixGroup}
	case *kmsg.ListGroupsRequest:
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"m-no-group"}
	case *kmsg.OffsetDeleteRequest:
		r.Group = matrixGroup
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = matrixTopic
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = 7 // nothing is committed there
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group, r.MemberID, r.RebalanceTimeoutMillis = "m-consumers", "member", 1000
		r.SubscribedTopicNames = []string{matrixTopic}
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = []string{"m-no-group"}
	default:
		return false
	}
	return true
}

func fillTransactions(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.InitProducerIDRequest:
		r.TransactionalID, r.TransactionTimeoutMillis = str(matrixTxn), 1000
		r.ProducerID, r.ProducerEpoch = -1, -1
	case *kmsg.AddPartitionsToTxnRequest:
		r.Transactions = append(r.Transactions, kmsg.NewAddPartitionsToTxnRequestTransaction())
	case *kmsg.AddOffsetsToTxnRequest:
		r.TransactionalID, r.Group = "m-no-txn", matrixGroup
	case *kmsg.EndTxnRequest:
		r.TransactionalID = "m-no-txn"
	case *kmsg.WriteTxnMarkersRequest:
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = missingTopic, []int32{0}
		m.Topics = append(m.Topics, t)
		r.Markers = append(r.Markers, m)
	case *kmsg.TxnOffsetCommitRequest:
		r.TransactionalID, r.Group, r.Generation = "m-no-txn", matrixGroup, -1
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = matrixTopic
		t.Partitions = append(t.Partitions, kmsg.NewTxnOffsetCommitRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.DescribeTransactionsRequest:
		r.TransactionalIDs = []string{matrixTxn}
	case *kmsg.ListTransactionsRequest:
	default:
		return false
	}
	return true
}

func fillTopics(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "m-new", 1, 1
		r.Topics, r.ValidateOnly, r.TimeoutMillis = append(r.Topics, t), true, 1000
	case *kmsg.DeleteTopicsRequest:
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = str(doomedTopic)
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 1000
	case *kmsg.CreatePartitionsRequest:
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = matrixTopic, 2
		r.Topics, r.ValidateOnly, r.TimeoutMillis = append(r.Topics, t), true, 1000
	case *kmsg.DescribeConfigsRequest:
		*r = *matrixDescribeConfigs(kmsg.ConfigResourceTypeTopic,
			matrixTopic).(*kmsg.DescribeConfigsRequest)
	case *kmsg.IncrementalAlterConfigsRequest:
		*r = *matrixAlterConfigs(kmsg.ConfigResourceTypeTopic,
			matrixTopic).(*kmsg.IncrementalAlterConfigsRequest)
	case *kmsg.AlterConfigsRequest:
		c := kmsg.NewAlterConfigsRequestResource()
		c.ResourceType, c.ResourceName = kmsg.ConfigResourceTypeTopic, matrixTopic
		r.Resources, r.ValidateOnly = append(r.Resources, c), true
	case *kmsg.AlterReplicaLogDirsRequest:
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		t.Topic, t.Partitions = matrixTopic, []int32{0}
		d.Dir, d.Topics = "/nowhere", append(d.Topics, t)
		r.Dirs = append(r.Dirs, d)
	case *kmsg.ElectLeadersRequest:
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = matrixTopic, []int32{0}
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 1000
	default:
		return false
	}
	return true
}

func fillCluster(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.DescribeACLsRequest:
		r.ResourceType, r.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		r.Operation, r.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	case *kmsg.CreateACLsRequest:
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName = kmsg.ACLResourceTypeTopic, "other"
		c.ResourcePatternType = kmsg.ACLResourcePatternTypeLiteral
		c.Principal, c.Host = "User:carol", "*"
		c.Operation, c.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		r.Creations = append(r.Creations, c)
	case *kmsg.DeleteACLsRequest:
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		f.Principal = str("User:carol")
		f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		r.Filters = append(r.Filters, f)
	case *kmsg.AlterClientQuotasRequest:
		e := kmsg.NewAlterClientQuotasRequestEntry()
		entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
		entity.Type, entity.Name = "user", str("carol")
		e.Entity = append(e.Entity, entity)
		r.Entries, r.ValidateOnly = append(r.Entries, e), true
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = "carol", 1
		r.Deletions = append(r.Deletions, d)
	case *kmsg.DescribeUserSCRAMCredentialsRequest: // of all users: Kafka does not answer a refusal
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = "carol"
		r.Users = append(r.Users, u)
	case *kmsg.UnregisterBrokerRequest:
		r.BrokerID = 99
	case *kmsg.DescribeLogDirsRequest, *kmsg.AlterPartitionAssignmentsRequest,
		*kmsg.ListPartitionReassignmentsRequest, *kmsg.DescribeClientQuotasRequest,
		*kmsg.DescribeQuorumRequest,
		*kmsg.UpdateFeaturesRequest, *kmsg.ListConfigResourcesRequest:
	default:
		return false
	}
	return true
}
