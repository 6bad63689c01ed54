package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// auditLines are the lines of the audit log of a kind.
func auditLines(c *coretest.Cluster, kind string) []string {
	var lines []string
	for line := range strings.Lines(c.Log()) {
		if strings.Contains(line, " audit="+kind+" ") || strings.HasSuffix(line, " audit="+kind+"\n") {
			lines = append(lines, line)
		}
	}
	return lines
}

// S25: what is denied is told with who, what and from where; what is left out of a list is not.
func TestS25_DeniedRequestsAreLogged(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	prepareMatrix(t, admin)
	alice := dialAs(t, c, "alice", "b")
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 12
	ask[*kmsg.MetadataResponse](alice, all)
	ask[*kmsg.ListGroupsResponse](alice, matrixRequest(16, 5))
	require.Empty(t, auditLines(c, "access"))

	req := matrixRequest(2, 7)
	req.(*kmsg.ListOffsetsRequest).Topics[0].Topic = "a\nb"
	alice.receive(req, alice.send(req))
	lines := auditLines(c, "access")
	require.Len(t, lines, 1)
	for _, want := range []string{"principal=User:alice", "operation=DESCRIBE", "resource=TOPIC",
		`name="a\nb"`, "listener=SASL_PLAINTEXT", "level=WARN"} {
		require.Contains(t, lines[0], want)
	}
	for range 50 { // a flood is no flood of lines: five a second, and this takes less than ten
		alice.receive(req, alice.send(req))
	}
	require.Less(t, len(auditLines(c, "access")), 50)
}

// S25 and S17: what an administrator does is logged with names and outcome, and without values.
func TestS25_AdminRequestsAreLogged(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	prepareMatrix(t, admin)
	alter := matrixRequest(44, 1).(*kmsg.IncrementalAlterConfigsRequest)
	alter.ValidateOnly = false
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "retention.ms", str("86400000")
	alter.Resources[0].Configs = append(alter.Resources[0].Configs, config)
	ask[*kmsg.IncrementalAlterConfigsResponse](admin, alter)
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations = "carol", 1, 4096
	up.Salt, up.SaltedPassword = []byte("canary-salt"), []byte("canary-salted-password")
	scram.Upsertions = append(scram.Upsertions, up)
	ask[*kmsg.AlterUserSCRAMCredentialsResponse](admin, scram)

	text := strings.Join(auditLines(c, "admin"), "")
	for _, want := range []string{"msg=CreateTopics", matrixTopic, "msg=IncrementalAlterConfigs",
		"m-topic retention.ms", `msg="alter SCRAM credentials"`, "user=carol",
		"principal=User:admin"} {
		require.Contains(t, text, want)
	}
	require.Contains(t, strings.Join(auditLines(c, "login"), ""), "principal=User:admin")
	require.NotContains(t, c.Log(), "canary")
	require.NotContains(t, c.Log(), fmt.Sprint([]byte("canary-salted-password")))
	require.NotContains(t, c.Log(), "86400000")
}

// KIP-848 as in Kafka: an expression matches only topics that the client may describe.
func TestKIP848_ExpressionsMatchVisibleTopics(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	prepareMatrix(t, admin)
	alice := dialAs(t, c, "alice", "b")
	epoch := int32(0)
	beat := func() *kmsg.ConsumerGroupHeartbeatResponse {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID = 1, "m-regex", "member"
		req.MemberEpoch, req.RebalanceTimeoutMillis = epoch, 1000
		req.SubscribedTopicRegex = str("m-.*")
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](alice, req)
		if resp.ErrorCode == 0 {
			epoch = resp.MemberEpoch
		}
		return resp
	}
	groups := grantsOf(3, 3) // READ on groups
	setAccess(admin, groups, nil)
	require.Zero(t, beat().ErrorCode)
	for range 20 { // it would be there with the second
		resp := beat()
		require.Zero(t, resp.ErrorCode)
		require.Empty(t, resp.Assignment.Topics)
	}
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Version, leave.Group, leave.MemberID, leave.MemberEpoch = 1, "m-regex", "member", -1
	require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](alice, leave).ErrorCode)
	setAccess(admin, append(groups, grantsOf(2, 8)...), nil) // DESCRIBE on topics
	epoch = 0
	require.Eventually(t, func() bool {
		resp := beat()
		return resp.ErrorCode == 0 && resp.Assignment != nil && len(resp.Assignment.Topics) == 1
	}, matrixWait, matrixTick)
}

// S25: what is asked for and refused is told five times a second at most, each change that is made
// every time.
func TestS25_RefusedChangesDoNotFloodTheLog(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	create := func(name string) int16 {
		req := newTopicRequest(name, 1, 1)
		req.SetVersion(5)
		return ask[*kmsg.CreateTopicsResponse](w, req).Topics[0].ErrorCode
	}
	began := time.Now()
	const n = 200
	for i := range n {
		require.Equal(t, int16(17), create("not a name")) // INVALID_TOPIC_EXCEPTION
		if i%10 == 0 {
			require.Zero(t, create(fmt.Sprint("good", i)))
		}
	}
	seconds := int(time.Since(began)/time.Second) + 2
	lines := strings.Join(auditLines(c, "admin"), "")
	require.LessOrEqual(t, strings.Count(lines, "not a name"), 5*seconds)
	require.Positive(t, strings.Count(lines, "not a name"))
	require.Equal(t, n/10, strings.Count(lines, "good"))
}
