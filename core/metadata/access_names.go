package metadata

import "strconv"

// operationNames, resourceNames are what Kafka's tools print.
var (
	operationNames = map[ACLOperation]string{
		ACLAll: "ALL", ACLRead: "READ", ACLWrite: "WRITE", ACLCreate: "CREATE", ACLDelete: "DELETE",
		ACLAlter: "ALTER", ACLDescribe: "DESCRIBE", ACLClusterAction: "CLUSTER_ACTION",
		ACLDescribeConfigs: "DESCRIBE_CONFIGS", ACLAlterConfigs: "ALTER_CONFIGS",
		ACLIdempotentWrite: "IDEMPOTENT_WRITE", ACLCreateTokens: "CREATE_TOKENS",
		ACLDescribeTokens: "DESCRIBE_TOKENS", ACLTwoPhaseCommit: "TWO_PHASE_COMMIT",
	}
	resourceNames = map[ACLResourceType]string{
		ACLTopic: "TOPIC", ACLGroup: "GROUP", ACLCluster: "CLUSTER",
		ACLTransactionalID: "TRANSACTIONAL_ID", ACLDelegationToken: "DELEGATION_TOKEN",
		ACLUser: "USER",
	}
)

// String is the name that Kafka's tools use.
func (o ACLOperation) String() string {
	if name, ok := operationNames[o]; ok {
		return name
	}
	return strconv.Itoa(int(o))
}

// String is the name that Kafka's tools use.
func (t ACLResourceType) String() string {
	if name, ok := resourceNames[t]; ok {
		return name
	}
	return strconv.Itoa(int(t))
}
