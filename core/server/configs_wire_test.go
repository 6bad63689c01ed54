package server_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminWire sends requests of administrators. Its tests are recorded from a one-node Kafka 4.3.1
// that has no settings of its own but its addresses.
type adminWire struct {
	t      *testing.T
	broker *kgo.Broker
	out    strings.Builder
}

func newAdminWire(t *testing.T, config map[string]string) *adminWire {
	cl := newAnswerer(t, config).client(t, kgo.RetryTimeout(20*time.Second))
	return &adminWire{t: t, broker: cl.Broker(1)}
}

// askAdmin sends a request to broker 1.
func askAdmin[T kmsg.Response](w *adminWire, req kmsg.Request) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	resp, err := w.broker.RetriableRequest(ctx, req)
	require.NoError(w.t, err)
	return resp.(T)
}

// finish compares what was written with the golden file, or writes it.
func (w *adminWire) finish(golden string) {
	w.t.Helper()
	compareAnswers(w.t, golden, w.out.String(), nil)
}

func (w *adminWire) createTopic(name string, partitions int32) {
	w.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	code := askAdmin[*kmsg.CreateTopicsResponse](w, req).Topics[0].ErrorCode
	require.Contains(w.t, []int16{0, 36}, code)
	w.awaitTopic(name, partitions-1)
}

// awaitTopic waits until a partition is served: Kafka answers CreateTopics before that.
func (w *adminWire) awaitTopic(name string, partition int32) {
	w.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	t.Topic, t.Partitions = name, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	require.Eventually(w.t, func() bool {
		got := askAdmin[*kmsg.ListOffsetsResponse](w, req)
		return got.Topics[0].Partitions[0].ErrorCode == 0
	}, time.Minute, 20*time.Millisecond)
}

// describe returns all settings of a resource in name order.
func (w *adminWire) describe(kind kmsg.ConfigResourceType, name string,
) []kmsg.DescribeConfigsResponseResourceConfig {
	w.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req.Resources = append(req.Resources, r)
	got := askAdmin[*kmsg.DescribeConfigsResponse](w, req).Resources[0]
	require.Zero(w.t, got.ErrorCode, got.ErrorMessage)
	slices.SortFunc(got.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int {
		return strings.Compare(a.Name, b.Name)
	})
	return got.Configs
}

// alter tries a change and returns the error code.
func (w *adminWire) alter(kind kmsg.ConfigResourceType, name, config string,
	op kmsg.IncrementalAlterConfigOp, value *string, validateOnly bool) int16 {
	w.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = config, op, value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	return askAdmin[*kmsg.IncrementalAlterConfigsResponse](w, req).Resources[0].ErrorCode
}

const (
	groupResource   = kmsg.ConfigResourceType(32)
	metricsResource = kmsg.ConfigResourceType(16)
)

// configTried are the values that TestConfigValuesAreJudgedAsKafkaDoes tries.
var configTried = []string{"", " ", "-2147483649", "-131073", "-131072", "-3", "-2", "-1", "0", "1",
	"2", "3", "4", "7", "8", "9", "10", "13", "14", "17", "18", "22", "23", "99", "100", "1023", "1024",
	"5000", "15000", "15001", "45000", "60000", "60001", "1048575", "1048576", "3600000", "3600001",
	"2147483639", "2147483647", "2147483648",
	"9223372036854775807", "9223372036854775808", "0.01", "1.01", "1e3", "+5", " 5 ", "abc", "true",
	"false", "TRUE", " true", "yes", "delete", "compact", "compact,delete",
	"compact, delete", "delete,delete",
	"compact,", "none", "uncompressed", "gzip", "GZIP", "producer", "CreateTime", "LogAppendTime",
	"*", "0:1", "0:1,1:1", "0:", "a:b", "0-1", "client_id=abc", "client_id=[", "foo=bar",
	"org.apache.", "sticky", "latest"}

// TestConfigValuesAreJudgedAsKafkaDoes tries values at the edges of all ranges on every setting of
// topics, groups and client metrics.
func TestConfigValuesAreJudgedAsKafkaDoes(t *testing.T) {
	w := newAdminWire(t, nil)
	w.createTopic("judged", 1)
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{{topicResource, "judged"}, {groupResource, "judged"}, {metricsResource, "judged"}} {
		for _, c := range w.describe(r.kind, r.name) {
			if !ourConfig(r.kind, c.Name) {
				continue
			}
			byCode := map[int16][]string{}
			for _, value := range configTried {
				code := w.alter(r.kind, r.name, c.Name, 0, &value, true)
				byCode[code] = append(byCode[code], fmt.Sprintf("%q", value))
			}
			var codes []int16
			for code := range byCode {
				codes = append(codes, code)
			}
			slices.Sort(codes)
			for _, code := range codes {
				if code == 40 {
					continue // the rest
				}
				fmt.Fprintf(&w.out, "%v %s %d: %s\n", r.kind, c.Name, code,
					strings.Join(byCode[code], " "))
			}
		}
	}
	w.finish("testdata/config_values_kafka_4.3.1.txt")
}

// ourConfig tells whether a setting is compared: flush is no setting of Kafka's, and groups of
// other protocols are not served.
func ourConfig(kind kmsg.ConfigResourceType, name string) bool {
	if kind == groupResource {
		return strings.HasPrefix(name, "consumer.")
	}
	return name != "flush"
}

// TestConfigsAreListedAsKafkaDoes records what settings Kafka has, for the table of differences
// that core/CONFIGS.md ends with; see adminWire. Without a Kafka it asks this broker, which must
// list every setting of topics that Kafka was seen to have; the tests of metadata compare the rest.
func TestConfigsAreListedAsKafkaDoes(t *testing.T) {
	w := newAdminWire(t, nil)
	w.createTopic("listed", 1)
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{{topicResource, "listed"}, {brokerResource, "1"}, {groupResource, "g"}, {metricsResource, "m"}} {
		for _, c := range w.describe(r.kind, r.name) {
			def, synonyms := "null", map[string]bool{}
			if c.Source == kmsg.ConfigSourceDefaultConfig && c.Value != nil {
				def = fmt.Sprintf("%q", *c.Value)
			}
			for _, s := range c.ConfigSynonyms {
				if s.Source == kmsg.ConfigSourceDefaultConfig && s.Value != nil {
					def = fmt.Sprintf("%q", *s.Value)
				}
				if r.kind != brokerResource && s.Name != c.Name {
					synonyms[s.Name] = true
				}
			}
			fmt.Fprintf(&w.out, "%v %s type=%d default=%s dynamic=%v sensitive=%v synonyms=%s\n",
				r.kind, c.Name, c.ConfigType, def, !c.ReadOnly, c.IsSensitive,
				strings.Join(slices.Sorted(maps.Keys(synonyms)), ","))
		}
	}
	lines := strings.SplitAfter(w.out.String(), "\n")
	slices.Sort(lines)
	const golden = "../metadata/testdata/configs_kafka_4.3.1.txt"
	if *recordFrom != "" {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(lines, "")), 0o644))
		return
	}
	recorded, err := os.ReadFile(golden)
	require.NoError(t, err)
	for line := range strings.Lines(string(recorded)) {
		if words := strings.Fields(line); words[0] == topicResource.String() {
			require.Contains(t, w.out.String(), words[0]+" "+words[1]+" ")
		}
	}
}
