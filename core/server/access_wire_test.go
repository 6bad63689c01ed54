package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/server"
)

const accessGolden = "testdata/access_kafka_4.4.0.txt"

// TestAccessIsRefusedAsKafkaDoes asks every API of the matrix without each thing that it needs, and
// with each operation on each kind of resource in its place, and compares with what an Apache Kafka
// 4.4.0 answered: the whole answer of what is refused, and what of the matrix is enough. Record it
// again with the SASL_PLAINTEXT listener of a one-node Kafka with the settings of secured:
//
//	go test ./core/server -run AccessIsRefused -record-from 127.0.0.1:19093
//
// Left out of the comparison are ids, the order of arrays, and the texts of errors.
func TestAccessIsRefusedAsKafkaDoes(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	served := dialAs(t, c, "admin", "a") // tells the APIs and versions to ask for
	connect := func(user, password string) *wire { return dialAs(t, c, user, password) }
	if *recordFrom != "" {
		kafka := newAnswerer(t, nil)
		connect = func(user, password string) *wire {
			return logIn(&wire{t: t, c: kafka.connect(t)}, user, password)
		}
	}
	admin := connect("admin", "a")
	w := &accessWire{
		matrixClient: matrixClient{t: t, admin: admin, w: connect("alice", "b")},
		topicID:      prepareMatrix(t, admin),
	}
	for _, mc := range matrixCases(t, served, w.topicID) {
		w.record(mc)
	}
	compareAnswers(t, accessGolden, w.out.String(), func(got, want string) bool {
		// Kafka repeats the code for a user without a name.
		return strings.HasSuffix(got, `{"ErrorCode":31,"Results":null}`) &&
			strings.HasSuffix(want, `[{"CredentialInfos":null,"ErrorCode":31,"User":""}]}`)
	})
}

// accessWire writes down what alice is answered.
type accessWire struct {
	matrixClient
	topicID [16]byte
	out     strings.Builder
}

// record writes down all about a case.
func (w *accessWire) record(mc matrixCase) {
	var full []server.Grant
	for _, need := range mc.needs {
		full = append(full, need.AnyOf[0])
	}
	req := mc.make()
	fmt.Fprintf(&w.out, "%s v%d, %s\n", kmsg.NameForKey(req.Key()), req.GetVersion(), mc.name)
	w.note(mc, "without anything", nil, nil)
	w.note(mc, "with all that is needed", full, nil)
	for i, need := range mc.needs {
		others := slices.Delete(slices.Clone(full), i, i+1)
		refused := w.note(mc, "without "+grantText(full[i]), others, nil)
		w.note(mc, "denied "+grantText(full[i]), full, need.AnyOf)
		var enough []string
		for _, kind := range aclKinds {
			for _, op := range aclOps {
				one := server.Grant{Kind: kind, Op: op}
				switch got := w.answer(mc, append(slices.Clone(others), one), nil); got {
				case "served":
					enough = append(enough, grantText(one))
				case refused:
				default:
					fmt.Fprintf(&w.out, "  with %s in its place: %s\n", grantText(one), got)
				}
			}
		}
		fmt.Fprintf(&w.out, "  enough in its place: %s\n", strings.Join(enough, ", "))
	}
}

func (w *accessWire) note(mc matrixCase, label string, grants, denies []server.Grant) string {
	text := w.answer(mc, grants, denies)
	fmt.Fprintf(&w.out, "  %s: %s\n", label, text)
	return text
}

// answer is what alice gets with the grants and denies: "served" or all that is refused.
func (w *accessWire) answer(mc matrixCase, grants, denies []server.Grant) string {
	w.t.Helper()
	setAccess(w.admin, grants, denies)
	req := mc.make()
	ensureDoomed(w.admin, req)
	resp := w.w.receive(req, w.w.send(req))
	codes := codesIn(resp)
	if !slices.ContainsFunc(codes, func(c int16) bool { return slices.Contains(accessCodes, c) }) {
		if mc.secret == "" || strings.Contains(textOf(resp), mc.secret) {
			return "served"
		}
		return "left out"
	}
	var v any
	require.NoError(w.t, json.Unmarshal([]byte(textOf(resp)), &v))
	sorted, err := json.Marshal(canonical(withoutIDs(v)))
	require.NoError(w.t, err)
	return strings.ReplaceAll(string(sorted), "[]", "null")
}

// withoutIDs drops what is made anew each time, and texts: Kafka's tell of its own innards.
func withoutIDs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"ErrorMessage", "TopicID", "ClusterID"} {
			delete(v, key)
		}
		for key := range v {
			v[key] = withoutIDs(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutIDs(v[i])
		}
	}
	return v
}

// grantText names a grant as Kafka's acls tool does.
func grantText(g server.Grant) string {
	kind := map[int8]string{2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID"}
	ops := []string{2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER",
		8: "DESCRIBE", 9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS",
		12: "IDEMPOTENT_WRITE"}
	return ops[g.Op] + " on " + kind[int8(g.Kind)]
}
