package command

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/plugins/host"
)

// reload checks the changed files and applies them, or says what is wrong while the old one runs.
func (d *dev) reload(ctx context.Context, wg *sync.WaitGroup, changed []string) {
	d.waitForText(ctx)
	p, err := readPipeline(d.path, d.vars, true, d.cacheDir())
	if err == nil {
		err = p.match(ctx, d.node.connect(), d.cacheDir())
	}
	d.waiting = nil
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		d.refuse(explained(err))
		return
	case p.failed():
		d.refuse(p.render(p.worth()) + check.Summary(p.worth()))
		return
	}
	findings, err := clusterFindings(ctx, p, d.node.connect(), d.screen.bootstrap(d.node))
	if err != nil || lang.HasErrors(findings) {
		why := p.render(findings) + check.Summary(findings)
		if err != nil {
			why = explained(err)
		}
		d.waiting = p
		d.refuse(why)
		return
	}
	sums := pluginSums(ctx, p, d.cacheDir())
	before := d.current()
	if d.waits {
		d.waits = false
		if err := d.apply(ctx, p); err != nil {
			d.refuse(explained(err))
			return
		}
		d.refused = false
		d.screen.note("starts   %s", p.revision.Name)
	}
	if p.revision.Hash() == before.revision.Hash() && maps.Equal(sums, d.sums) && !d.failed() {
		if d.refused {
			d.refused = false
			d.screen.note("reload   as it runs; nothing to change")
		}
		return
	}
	if err := d.replace(ctx, wg, before, p); err != nil {
		d.refuse(explained(err))
		return
	}
	d.sums, d.refused = sums, false
	d.screen.note("reload   %s", reloaded(p, changed))
}

// reloaded names what changed: the pipeline, or a source of one of its plugins.
func reloaded(p *pipelineFile, changed []string) string {
	if len(changed) == 1 && filepath.Base(changed[0]) != filepath.Base(p.revision.File) {
		return p.revision.File + ", for " + shortPath(changed[0])
	}
	return p.revision.File
}

// shortPath is a path from the working directory, where it lies below that.
func shortPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// explained is an error as the end of a command shows it.
func explained(err error) string {
	var b strings.Builder
	output.Explain(err).Render(&b)
	return b.String()
}

func (d *dev) refuse(why string) {
	d.refused = true
	d.screen.refused(why)
}

// failed tells whether the applied revision stands still because of an error: saving the files
// again starts it again.
func (d *dev) failed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.last.State == deploy.Failed
}

// replace applies a changed pipeline. One with another name takes the old one's place, which is
// stopped.
func (d *dev) replace(
	ctx context.Context, wg *sync.WaitGroup, before, p *pipelineFile,
) error {
	renamed := before.revision.Name != p.revision.Name
	if !renamed {
		if err := stateLoss(before.plan, p.plan); err != nil {
			return err
		}
	}
	follow, err := d.followRows(ctx, wg, p)
	if err != nil {
		return err
	}
	if renamed {
		if _, err := d.node.store.SetWanted(ctx, before.revision.Name, deploy.WantStopped); err != nil {
			return err
		}
		d.screen.note("renamed  %s is stopped, its position is kept; %s begins", before.revision.Name,
			p.revision.Name)
	}
	d.mu.Lock()
	d.mu.current, d.mu.last = p, deploy.Status{}
	d.mu.Unlock()
	d.screen.use(p)
	if _, err := d.node.store.Apply(ctx, p.revision); err != nil {
		d.mu.Lock()
		d.mu.current = before
		d.mu.Unlock()
		d.screen.use(before)
		return err
	}
	follow()
	return nil
}

// stateLoss refuses a change that cannot use what is stored.
func stateLoss(before, after *plan.Plan) error {
	diff := plan.Diff(before, after)
	if before == nil || diff.Class != plan.StateReset {
		return nil
	}
	var why []string
	for _, c := range diff.Changes {
		if c.Class == plan.StateReset {
			why = append(why, fmt.Sprintf("%s %s: %s", c.Part, c.ID, c.Why))
		}
	}
	return output.Conflict("STATE_LOSS", "this change cannot use the state that is stored").
		WithWhy(strings.Join(why, "\n")).
		WithDo("to try it, start with an empty folder: --data-dir DIR\n" +
			"to run both, give the pipeline and the topics it writes other names")
}

// How long an editor may leave a file missing or empty while it saves, and how often it is looked
// at meanwhile.
const (
	saveGrace = time.Second
	savePoll  = 50 * time.Millisecond
)

// waitForText waits until the pipeline's file has a text. Some editors empty or remove a file
// before they write it; that is no change to tell of.
func (d *dev) waitForText(ctx context.Context) {
	deadline := time.NewTimer(saveGrace)
	defer deadline.Stop()
	tick := time.NewTicker(savePoll)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(d.current().revision.File)
		if err == nil && len(bytes.TrimSpace(text)) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// pluginSums gives the checksums of the pipeline's plugins. One that cannot be built has none,
// which is told elsewhere.
func pluginSums(ctx context.Context, p *pipelineFile, cacheDir string) map[string]string {
	sums := map[string]string{}
	for _, plugin := range p.plan.Plugins {
		path := plugin.Source
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.revision.Dir, path)
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			sums[plugin.Alias], _ = host.Checksum(path)
			continue
		}
		binary, _ := host.Build(ctx, path, host.BuildOptions{CacheDir: cacheDir})
		sums[plugin.Alias] = binary.SHA256
	}
	return sums
}

// unique sorts and drops repeats.
func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
