package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/server"
)

// secured are the settings of a broker with a plaintext listener, one with logins, and access
// control. The users are admin, who may do everything, and alice.
func secured(extra ...string) map[string]string {
	config := map[string]string{
		"listeners":               "PLAINTEXT://broker:9092,SASL_PLAINTEXT://broker:9093",
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"authorizer.class.name":   metadata.StandardAuthorizer,
		"super.users":             "User:admin",
		"connection.failed.authentication.delay.ms": "0",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security." +
			`plain.PlainLoginModule required user_admin="a" user_alice="b";`,
	}
	for i := 0; i < len(extra); i += 2 {
		config[extra[i]] = extra[i+1]
	}
	return config
}

// dialAs connects and logs in.
func dialAs(t testing.TB, c *coretest.Cluster, user, password string) *wire {
	t.Helper()
	return logIn(dialListener(t, c, "SASL_PLAINTEXT"), user, password)
}

func logIn(w *wire, user, password string) *wire {
	w.t.Helper()
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "PLAIN"
	require.Zero(w.t, ask[*kmsg.SASLHandshakeResponse](w, handshake).ErrorCode)
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.Version, token.SASLAuthBytes = 2, []byte("\x00"+user+"\x00"+password)
	require.Zero(w.t, ask[*kmsg.SASLAuthenticateResponse](w, token).ErrorCode)
	return w
}

func dialListener(t testing.TB, c *coretest.Cluster, listener string) *wire {
	t.Helper()
	conn, err := c.Dialer()(context.Background(), "tcp", c.Broker().ListenerAddr(listener))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: t, c: conn}
}

// accessCodes are those that refuse access.
var accessCodes = []int16{29, 30, 31, 53}

// kinds and operations are the sides of the matrix.
var (
	aclKinds = []metadata.ACLResourceType{metadata.ACLTopic, metadata.ACLGroup, metadata.ACLCluster,
		metadata.ACLTransactionalID}
	aclOps = []metadata.ACLOperation{metadata.ACLAll, metadata.ACLRead, metadata.ACLWrite,
		metadata.ACLCreate, metadata.ACLDelete, metadata.ACLAlter, metadata.ACLDescribe,
		metadata.ACLClusterAction, metadata.ACLDescribeConfigs, metadata.ACLAlterConfigs,
		metadata.ACLIdempotentWrite}
)

// given tells whether a grant of have is one of want, by the rules of Kafka's documentation:
// DESCRIBE comes with READ, WRITE, DELETE and ALTER, DESCRIBE_CONFIGS with ALTER_CONFIGS.
func given(have, want server.Grant) bool {
	if have.Kind != want.Kind {
		return false
	}
	switch {
	case have.Op == want.Op, have.Op == metadata.ACLAll:
		return true
	case want.Op == metadata.ACLDescribe:
		return slices.Contains([]metadata.ACLOperation{metadata.ACLRead, metadata.ACLWrite,
			metadata.ACLDelete, metadata.ACLAlter}, have.Op)
	case want.Op == metadata.ACLDescribeConfigs:
		return have.Op == metadata.ACLAlterConfigs
	}
	return false
}

// matrixCase is one way to use an API.
type matrixCase struct {
	name  string
	needs []server.Need
	make  func() kmsg.Request
	// secret is what the answer has only with the need of code 0.
	secret string
}

// TestEveryAPIAsksForItsAccess sends a request of every API that is served with every operation on
// every kind of resource, one at a time beside what else it needs: access is given exactly by what
// the table says, in the codes it says, and taken again by a rule that denies. An API without a row
// or without a request here fails.
func TestEveryAPIAsksForItsAccess(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	cases := matrixCases(t, admin, prepareMatrix(t, admin))
	alice := &matrixClient{t: t, c: c, admin: admin}
	n := 0
	for _, mc := range cases {
		var full []server.Grant
		for _, need := range mc.needs {
			full = append(full, need.AnyOf[0])
		}
		alice.requireAccess(mc, full, nil, nil)
		for i, need := range mc.needs {
			others := slices.Delete(slices.Clone(full), i, i+1)
			alice.requireAccess(mc, others, nil, &need)
			for _, kind := range aclKinds {
				for _, op := range aclOps {
					one := server.Grant{Kind: kind, Op: op}
					refused := &need
					for _, g := range append(slices.Clone(others), one) {
						if slices.ContainsFunc(need.AnyOf, func(want server.Grant) bool {
							return given(g, want)
						}) {
							refused = nil
						}
					}
					alice.requireAccess(mc, append(slices.Clone(others), one), nil, refused)
					n++
				}
			}
			alice.requireAccess(mc, full, need.AnyOf, &need)
		}
	}
	t.Logf("%d cases, %d cells", len(cases), n)
	require.Greater(t, n, 2000)
}

// matrixClient is alice, with the administrator who gives her access.
type matrixClient struct {
	t     *testing.T
	c     *coretest.Cluster
	admin *wire
	w     *wire
}

// requireAccess gives alice the grants and denies, and nothing else, and requires that the request
// is refused for want of the need, or not refused if that is nil.
func (m *matrixClient) requireAccess(
	mc matrixCase, grants, denies []server.Grant, refusedFor *server.Need,
) {
	m.t.Helper()
	setAccess(m.admin, grants, denies)
	if m.w == nil {
		m.w = dialAs(m.t, m.c, "alice", "b")
	}
	req := mc.make()
	ensureDoomed(m.admin, req)
	resp := m.w.receive(req, m.w.send(req))
	codes := codesIn(resp)
	what := fmt.Sprintf("%s v%d (%s), granted %v, denied %v: %+v", kmsg.NameForKey(req.Key()),
		req.GetVersion(), mc.name, grants, denies, resp)
	switch {
	case refusedFor != nil && refusedFor.Code != 0:
		require.Contains(m.t, codes, refusedFor.Code, what)
		return
	case refusedFor != nil:
		require.NotContains(m.t, textOf(resp), mc.secret, what)
	case mc.secret != "":
		require.Contains(m.t, textOf(resp), mc.secret, what)
	}
	for _, code := range accessCodes {
		require.NotContains(m.t, codes, code, what)
	}
}

// setAccess replaces alice's access.
func setAccess(admin *wire, grants, denies []server.Grant) {
	admin.t.Helper()
	gone := kmsg.NewPtrDeleteACLsRequest()
	gone.Version = 3
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourcePatternType = 1, 1
	filter.Principal = str("User:alice")
	filter.Operation, filter.PermissionType = 1, 1
	gone.Filters = append(gone.Filters, filter)
	ask[*kmsg.DeleteACLsResponse](admin, gone)
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version = 3
	add := func(g server.Grant, permission kmsg.ACLPermissionType) {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName = kmsg.ACLResourceType(g.Kind), "m-"
		acl.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
		if g.Kind == metadata.ACLCluster {
			acl.ResourceName = metadata.ClusterResource
			acl.ResourcePatternType = kmsg.ACLResourcePatternTypeLiteral
		}
		acl.Principal, acl.Host = "User:alice", "*"
		acl.Operation, acl.PermissionType = kmsg.ACLOperation(g.Op), permission
		req.Creations = append(req.Creations, acl)
	}
	for i, g := range grants {
		if !slices.Contains(grants[:i], g) {
			add(g, kmsg.ACLPermissionTypeAllow)
		}
	}
	for _, g := range denies {
		add(g, kmsg.ACLPermissionTypeDeny)
	}
	for _, r := range ask[*kmsg.CreateACLsResponse](admin, req).Results {
		require.Zero(admin.t, r.ErrorCode)
	}
	require.Eventually(admin.t, func() bool { // Kafka's brokers hear of it later
		return rulesOf(admin, "User:alice") == len(req.Creations)
	}, matrixWait, matrixTick)
}

// rulesOf counts the rules that a broker knows about a principal.
func rulesOf(admin *wire, principal string) int {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version = 3
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req.Principal = &principal
	n := 0
	for _, r := range ask[*kmsg.DescribeACLsResponse](admin, req).Resources {
		n += len(r.ACLs)
	}
	return n
}

// codesIn returns every error code of an answer.
func codesIn(resp kmsg.Response) []int16 {
	var codes []int16
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Field(i)
				if f.Kind() == reflect.Int16 && strings.HasSuffix(v.Type().Field(i).Name, "ErrorCode") {
					codes = append(codes, int16(f.Int()))
				} else if v.Type().Field(i).IsExported() {
					walk(f)
				}
			}
		}
	}
	walk(reflect.ValueOf(resp))
	return codes
}

// textOf returns an answer with its strings.
func textOf(resp kmsg.Response) string {
	text, _ := json.Marshal(resp)
	return string(text)
}

func str(s string) *string { return &s }
