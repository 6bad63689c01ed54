package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
)

const clusterPipeline = `version: 1
pipeline: p
sources:
  orders: {topic: orders, key: string}
  payments: {topic: payments, key: string}
tables:
  users: {topic: users, key: string}
steps:
  - {id: u, from: orders, join: {table: users, on: key}}
  - {id: k, from: payments, map: {a: value.a}}
  - {id: j, from: u, join: {stream: k, on: key, within: 1m, as: pay}}
sinks:
  out: {topic: out}
`

// TestAgainstTheCluster: what cannot run is told before it is applied, at its place in the file.
func TestAgainstTheCluster(t *testing.T) {
	all := map[string]int32{"orders": 2, "payments": 2, "users": 2, "out": 1}
	with := func(topic string, n int32) map[string]int32 {
		topics := map[string]int32{topic: n}
		for name, n := range all {
			if _, ok := topics[name]; !ok {
				topics[name] = n
			}
		}
		return topics
	}
	without := with("paiments", 2)
	delete(without, "payments")
	no := func(topic string) bool { return topic != "orders" && topic != "out" }
	cases := map[string]struct {
		cluster plan.Cluster
		want    []string
	}{
		"all is well": {cluster: plan.Cluster{Topics: all}},
		"a topic that is not there": {cluster: plan.Cluster{Topics: without}, want: []string{
			`5:21: error[E501]: the topic "payments" does not exist, or must not be seen  hint: did ` +
				`you mean "paiments"? or create it: millstream topic create payments --partitions 1`}},
		"a table cut otherwise": {cluster: plan.Cluster{Topics: with("users", 1)}, want: []string{
			`7:18: error[E502]: "users" has 1 partitions and "orders" 2, and the join "u" puts their ` +
				`equal keys together  hint: say  global: true  at the table "users", so that every task ` +
				`has all of its rows`}},
		"a right that is missing": {cluster: plan.Cluster{Topics: all, MayRead: no, MayWrite: no},
			want: []string{`4:19: warning[W503]: you may not read the topic "orders"  hint: the worker ` +
				`needs the right READ on it, if it logs in as you do`,
				`13:16: warning[W503]: you may not write the topic "out"  hint: the worker ` +
					`needs the right WRITE on it, if it logs in as you do`}},
		"a topic of another pipeline": {cluster: plan.Cluster{Topics: all,
			Writers: map[string]string{"out": "other"}}, want: []string{
			`13:16: error[E504]: the pipeline "other" writes the topic "out" already  hint: write ` +
				`another topic, or say  shared: true  at the sink if both are meant to`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, tree, findings := plan.Compile("f", []byte(clusterPipeline), lang.Options{},
				check.Options{})
			require.NotNil(t, p, "%v", findings)
			var got []string
			for _, f := range plan.Against(p, tree, c.cluster) {
				got = append(got, fmt.Sprintf("%d:%d: %s[%s]: %s  hint: %s", f.Line, f.Col, f.Severity,
					f.Code, f.Message, f.Hint))
			}
			require.Equal(t, c.want, got)
		})
	}
	p, tree, _ := plan.Compile("f", []byte(clusterPipeline[:len(clusterPipeline)-len("topic: out}\n")]+
		"topic: out, shared: true}\n"), lang.Options{}, check.Options{})
	require.Empty(t, plan.Against(p, tree, plan.Cluster{Topics: all,
		Writers: map[string]string{"out": "other"}}), "both are meant to write it")
}
