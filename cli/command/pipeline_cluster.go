package command

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// checkCluster prints what of a pipeline cannot run on the cluster, and refuses it if there are
// errors. It is asked before the pipeline is applied: afterwards it would only fail.
func (a *app) checkCluster(ctx context.Context, p *pipelineFile, connect deploy.Connect,
	at string) error {
	for _, other := range p.otherwise {
		a.printer.Note("warning: %s", other)
	}
	findings, err := clusterFindings(ctx, p, connect, at)
	if err != nil || len(findings) == 0 {
		return err
	}
	fmt.Fprint(a.streams.Err, p.render(findings))
	if !lang.HasErrors(findings) {
		return nil
	}
	a.printer.Note("%s", check.Summary(findings))
	return reported(output.ExitUsage)
}

// clusterFindings compares a pipeline with the topics there are and the pipelines applied. at is
// what commands that are told need to reach the cluster.
func clusterFindings(
	ctx context.Context, p *pipelineFile, connect deploy.Connect, at string,
) ([]lang.Finding, error) {
	c, err := clusterTopics(ctx, connect)
	if err != nil {
		return nil, err
	}
	c.At = at
	store, err := deploy.OpenStore(ctx, connect)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	applied, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	c.Writers = map[string]string{}
	for _, r := range applied {
		if r.Name == p.revision.Name || r.Replay != nil {
			continue
		}
		tree, _ := lang.Load(r.File, []byte(r.Text), runner.LoadOptions(r))
		for i := range tree.Sinks.Entries {
			if s := &tree.Sinks.Entries[i].Value; s.Topic.Set && !s.Shared.Value {
				c.Writers[string(s.Topic.Value)] = r.Name
			}
		}
	}
	return plan.Against(p.plan, p.tree, c), nil
}

// clusterTopics asks for the topics there are, and for what may be done with them.
func clusterTopics(ctx context.Context, connect deploy.Connect) (plan.Cluster, error) {
	cl, err := connect(kgo.RetryTimeout(2 * dialTimeout))
	if err != nil {
		return plan.Cluster{}, err
	}
	defer cl.Close()
	topics, err := client.Access(ctx, cl)
	if err != nil {
		return plan.Cluster{}, err
	}
	c := plan.Cluster{Topics: map[string]int32{}}
	for name, t := range topics {
		c.Topics[name] = t.Partitions
	}
	// A topic that is not there yet is made when the pipeline starts.
	c.MayRead = func(topic string) bool { t, ok := topics[topic]; return !ok || t.Read }
	c.MayWrite = func(topic string) bool { t, ok := topics[topic]; return !ok || t.Write }
	return c, nil
}

// waitsForCluster tells, in dev, whether the pipeline must not start as the cluster is; what is in
// the way is printed. It is looked again every lookEvery, and when the file is saved.
func (d *dev) waitsForCluster(ctx context.Context, p *pipelineFile) (bool, error) {
	err := d.app.checkCluster(ctx, p, d.node.connect(), d.screen.bootstrap(d.node))
	said, ok := errors.AsType[*output.Error](err)
	switch {
	case err == nil:
		return false, nil
	case d.untilDone || !ok || said.Code != silentCode:
		return true, err
	}
	d.refused, d.waits, d.waiting = true, true, p
	d.screen.note("waits    %s starts when that is mended, in the file or on the broker",
		p.revision.Name)
	return true, nil
}

// lookAgain starts the pipeline that waits for the cluster when it has what it needs.
func (d *dev) lookAgain(ctx context.Context, wg *sync.WaitGroup) {
	if !d.waits || d.waiting == nil {
		return
	}
	if err := d.waiting.match(ctx, d.node.connect(), d.cacheDir()); err != nil {
		return
	}
	if d.waiting.failed() { // with what was found it does not compile, which reload says
		d.reload(ctx, wg, nil)
		return
	}
	findings, err := clusterFindings(ctx, d.waiting, d.node.connect(), "")
	if err == nil && !lang.HasErrors(findings) {
		d.reload(ctx, wg, nil)
	}
}
