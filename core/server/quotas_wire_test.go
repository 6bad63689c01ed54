package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// quotaPart is a part of an entity in a request; none of these has a name with a comma.
type quotaPart struct{ kind, name string }

// nullName stands for null.
const nullName = "<null>"

func (p quotaPart) pointer() *string {
	if p.name == nullName {
		return nil
	}
	return &p.name
}

// entityOf reads "user=alice,client-id=<null>".
func entityOf(text string) (parts []quotaPart) {
	for part := range strings.SplitSeq(text, ",") {
		if kind, name, ok := strings.Cut(part, "="); ok {
			parts = append(parts, quotaPart{kind, name})
		}
	}
	return parts
}

// quotaChange is one entry of AlterClientQuotas.
type quotaChange struct {
	entity string
	key    string
	value  float64
	remove bool
}

func alterQuotas(validate bool, changes ...quotaChange) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly = validate
	for _, c := range changes {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, p := range entityOf(c.entity) {
			part := kmsg.NewAlterClientQuotasRequestEntryEntity()
			part.Type, part.Name = p.kind, p.pointer()
			entry.Entity = append(entry.Entity, part)
		}
		for key := range strings.SplitSeq(c.key, ",") {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key, op.Value, op.Remove = key, c.value, c.remove
			entry.Ops = append(entry.Ops, op)
		}
		req.Entries = append(req.Entries, entry)
	}
	return req
}

// describeQuotas asks for "kind=name" (exactly), "kind=<null>" (the default) or "kind" (any).
func describeQuotas(strict bool, filter string) *kmsg.DescribeClientQuotasRequest {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = strict
	for part := range strings.SplitSeq(filter, ",") {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, name, named := strings.Cut(part, "=")
		if part == "" {
			continue
		}
		switch c.EntityType = kind; {
		case !named:
			c.MatchType = kmsg.QuotasMatchTypeAny
		case name == nullName:
			c.MatchType = kmsg.QuotasMatchTypeDefault
		default:
			c.MatchType, c.Match = kmsg.QuotasMatchTypeExact, &name
		}
		req.Components = append(req.Components, c)
	}
	return req
}

var quotaChanges = []quotaChange{
	{"user=alice", "producer_byte_rate", 1000, false},
	{"user=alice", "producer_byte_rate", 2000, false},
	{"user=alice", "consumer_byte_rate,request_percentage", 12, false},
	{"user=alice", "producer_byte_rate,producer_byte_rate", 12, false},
	{"user=alice", "controller_mutation_rate", 0.5, false},
	{"user=alice,client-id=c1", "producer_byte_rate", 3000, false},
	{"user=alice,client-id=<null>", "producer_byte_rate", 4000, false},
	{"user=<null>,client-id=c1", "producer_byte_rate", 5000, false},
	{"user=<null>,client-id=<null>", "producer_byte_rate", 6000, false},
	{"user=<null>", "producer_byte_rate", 7000, false},
	{"client-id=c1", "producer_byte_rate", 8000, false},
	{"client-id=<null>", "producer_byte_rate", 9000, false},
	{"client-id=a b/c%2*", "producer_byte_rate", 9000, false},
	{"user=CN=x", "producer_byte_rate", 9000, false},
	{"ip=10.0.0.1", "connection_creation_rate", 10, false},
	{"ip=::1", "connection_creation_rate", 10, false},
	{"ip=<null>", "connection_creation_rate", 20, false},
	{"ip=10.0.0.1,user=alice", "connection_creation_rate", 10, false},
	{"ip=10.0.0.1,client-id=<null>", "producer_byte_rate", 10, false},
	{"ip=10.0.0.1", "producer_byte_rate", 10, false},
	{"ip=300.0.0.1", "connection_creation_rate", 10, false},
	{"ip=no host", "connection_creation_rate", 10, false},
	{"ip=", "connection_creation_rate", 10, false},
	{"user=", "producer_byte_rate", 10, false},
	{"client-id=", "producer_byte_rate", 10, false},
	{"", "producer_byte_rate", 10, false},
	{"group=g", "producer_byte_rate", 10, false},
	{"=g", "producer_byte_rate", 10, false},
	{"USER=alice", "producer_byte_rate", 10, false},
	{"user=bob", "connection_creation_rate", 10, false},
	{"user=bob", "nope", 10, false},
	{"user=bob", "", 10, false},
	{"user=bob", "nope", 10, true},
	{"user=bob", "producer_byte_rate", 0, true},
	{"user=bob", "producer_byte_rate", 0, false},
	{"user=bob", "producer_byte_rate", -1, false},
	{"user=bob", "producer_byte_rate", 1.5, false},
	{"user=bob", "producer_byte_rate", 1.0000001, false},
	{"user=bob", "producer_byte_rate", 9.3e18, false},
	{"user=bob", "producer_byte_rate", 9.2e18, false},
	{"user=bob", "request_percentage", 0.01, false},
	{"user=bob", "request_percentage", 1e300, false},
	{"user=bob", "controller_mutation_rate", 0, false},
	{"ip=10.0.0.2", "connection_creation_rate", 2147483648, false},
	{"ip=10.0.0.2", "connection_creation_rate", 2147483647, false},
	{"ip=10.0.0.2", "connection_creation_rate", 1.5, false},
	{"user=alice", "producer_byte_rate", 77, true},
	{"client-id=a b/c%2*", "producer_byte_rate", 0, true},
}

var quotaFilters = []string{"", "user", "client-id", "ip", "user,client-id", "user=alice",
	"user=<null>", "user=nobody", "user=alice,client-id", "user=alice,client-id=c1",
	"user=alice,client-id=<null>", "user,client-id=c1", "client-id=c1", "client-id=<null>",
	"ip=10.0.0.1", "ip=<null>", "ip,user", "ip=10.0.0.1,client-id=<null>", "user,user",
	"user=alice,user", "user=alice,user=bob", "group", "=x", "user=", "USER"}

// TestKIP546_QuotasAreAnsweredAsKafkaDoes changes and asks for client quotas, and compares with
// what an Apache Kafka 4.3.1 answered. On purpose different: names of hosts, values without end.
func TestKIP546_QuotasAreAnsweredAsKafkaDoes(t *testing.T) {
	w := newAdminWire(t, nil)
	for version := range int16(2) {
		for _, filter := range quotaFilters[:3] {
			w.sendQuota("at first "+filter, version, describeQuotas(false, filter))
		}
	}
	for i, c := range quotaChanges {
		label := fmt.Sprintf("quota %s %s %v %v", c.entity, c.key, c.value, c.remove)
		w.sendQuota("validate "+label, int16(i%2), alterQuotas(true, c))
		w.sendQuota(label, int16(i%2), alterQuotas(false, c))
	}
	w.sendQuota("nothing", 1, alterQuotas(false))
	w.sendQuota("two", 1, alterQuotas(false,
		quotaChange{"user=carol", "producer_byte_rate", 1, false},
		quotaChange{"user=dave", "producer_byte_rate", -1, false}))
	for _, filter := range quotaFilters {
		for _, strict := range []bool{false, true} {
			w.sendQuota(fmt.Sprint("filter ", filter, " strict ", strict), 1,
				describeQuotas(strict, filter))
		}
	}
	w.oddFilters()
	for _, c := range quotaChanges {
		c.remove = true
		w.sendQuota("remove "+c.entity+" "+c.key, 1, alterQuotas(false, c))
	}
	for _, name := range []string{"carol", "bob"} {
		w.sendQuota("remove "+name, 1, alterQuotas(false,
			quotaChange{"user=" + name, "producer_byte_rate", 0, true}))
	}
	w.sendQuota("at last", 1, describeQuotas(false, ""))
	w.finish("testdata/quotas_kafka_4.3.1.txt")
}

// sendQuota asks and writes the answer down, with its texts.
func (w *adminWire) sendQuota(label string, version int16, req kmsg.Request) {
	w.t.Helper()
	b, err := json.Marshal(askAdmin[kmsg.Response](w, pinned{req, version}))
	require.NoError(w.t, err)
	var v any
	require.NoError(w.t, json.Unmarshal(b, &v))
	b, err = json.Marshal(canonical(v))
	require.NoError(w.t, err)
	fmt.Fprintf(&w.out, "%s v%d %s\n", label, version, b)
}

// oddFilters has match types that do not fit.
func (w *adminWire) oddFilters() {
	for _, matchType := range []kmsg.QuotasMatchType{0, 1, 2, 3, -1} {
		for _, match := range []*string{nil, new("alice")} {
			req := kmsg.NewPtrDescribeClientQuotasRequest()
			c := kmsg.NewDescribeClientQuotasRequestComponent()
			c.EntityType, c.MatchType, c.Match = "user", matchType, match
			req.Components = append(req.Components, c)
			w.sendQuota(fmt.Sprint("match ", int8(matchType), match != nil), 1, req)
		}
	}
}

// TestKIP546_ClientQuotasSurviveARestart stores quotas, ends the broker without a farewell, and
// finds them again.
func TestKIP546_ClientQuotasSurviveARestart(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	cl := c.Client()
	set := alterQuotas(false,
		quotaChange{"user=alice,client-id=<null>", "producer_byte_rate", 3, false},
		quotaChange{"ip=<null>", "connection_creation_rate", 100, false})
	_, err := set.RequestWith(t.Context(), cl)
	require.NoError(t, err)
	before, err := describeQuotas(false, "").RequestWith(t.Context(), cl)
	require.NoError(t, err)
	require.Len(t, before.Entries, 2)
	cl.Close()
	c.Crash()
	after, err := describeQuotas(false, "").RequestWith(t.Context(), c.Client())
	require.NoError(t, err)
	was, _ := json.Marshal(before.Entries)
	is, _ := json.Marshal(after.Entries)
	require.JSONEq(t, string(was), string(is))
}

// TestQuotasThatBoundNothingAreRefused has the values on which Kafka and this build differ.
func TestQuotasThatBoundNothingAreRefused(t *testing.T) {
	w := newAdminWire(t, nil)
	for _, c := range []quotaChange{
		{"user=bob", "producer_byte_rate", math.NaN(), false},
		{"user=bob", "request_percentage", math.NaN(), false},
		{"user=bob", "request_percentage", math.Inf(1), false},
		{"ip=localhost", "connection_creation_rate", 5, false},
	} {
		got := askAdmin[*kmsg.AlterClientQuotasResponse](w, alterQuotas(false, c))
		require.EqualValues(t, 42, got.Entries[0].ErrorCode, c)
	}
}
