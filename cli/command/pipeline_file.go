package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// pipelineFile is a pipeline as a user gives it: a YAML file, or a folder with a pipeline.yaml.
type pipelineFile struct {
	revision deploy.Revision
	text     *lang.File
	tree     *lang.Pipeline
	plan     *plan.Plan // nil when there are errors
	findings []lang.Finding
	// otherwise are topics that a pattern finds and that are left out, as they are cut otherwise.
	otherwise []runner.OtherTopic
}

// defaultPipelineFile is what a folder is expected to hold.
const defaultPipelineFile = "pipeline.yaml"

// readPipeline reads and compiles a file. build asks plugins for their settings, which needs a Go
// toolchain for plugins that come as source.
func readPipeline(path string, vars []string, build bool, cacheDir string) (*pipelineFile, error) {
	values, err := parseVars(vars)
	if err != nil {
		return nil, err
	}
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, defaultPipelineFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cannotRead(file, err).
			WithDo("millstream pipeline init DIR writes a first one")
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	p := &pipelineFile{revision: deploy.Revision{Text: string(text), File: file, Dir: dir,
		Vars: values}}
	p.compile(build, cacheDir)
	return p, nil
}

// compile compiles the revision.
func (p *pipelineFile) compile(build bool, cacheDir string) {
	catalog := runner.NewCatalog(runner.CatalogOptions{Connectors: connectors.Builtin(),
		Dir: p.revision.Dir, Build: build, CacheDir: cacheDir})
	defer catalog.Close()
	load := runner.LoadOptions(p.revision)
	read := load.Include
	load.Include = func(path string) ([]byte, error) { // kept, so that every worker has the same
		text, err := read(path)
		if err == nil {
			if p.revision.Includes == nil {
				p.revision.Includes = map[string]string{}
			}
			p.revision.Includes[path] = string(text)
		}
		return text, err
	}
	p.plan, p.tree, p.findings = plan.Compile(p.revision.File, []byte(p.revision.Text), load,
		check.Options{Catalog: catalog})
	p.text = p.tree.File
	p.revision.Name = string(p.tree.Name.Value)
}

// match finds the topics of the patterns of sources on a cluster, and compiles the pipeline with
// them. Those it has read come first: their order is that of records of equal times.
func (p *pipelineFile) match(ctx context.Context, connect deploy.Connect, cacheDir string) error {
	if p.failed() || len(p.plan.Patterns) == 0 {
		return nil
	}
	c, err := clusterTopics(ctx, connect)
	if err != nil {
		return err
	}
	store, err := deploy.OpenStore(ctx, connect)
	if err != nil {
		return err
	}
	defer store.Close()
	before, err := store.Get(ctx, p.revision.Name)
	if err != nil && !errors.Is(err, deploy.ErrUnknownPipeline) {
		return err
	}
	for i := range p.plan.Patterns {
		pattern := &p.plan.Patterns[i]
		for _, topic := range before.Matched[pattern.Source] {
			_, there := c.Topics[topic]
			// It has them already when it is matched again, as dev does while it waits.
			if there && pattern.Matches(topic) && !slices.Contains(pattern.Topics, topic) {
				pattern.Topics = append(pattern.Topics, topic)
			}
		}
	}
	p.revision.Matched, p.otherwise = runner.Matched(p.plan, c.Topics)
	p.compile(true, cacheDir)
	return nil
}

func parseVars(pairs []string) (map[string]string, error) {
	values := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, output.Usage("BAD_VAR", fmt.Sprintf("%q is not a variable", pair)).
				WithDo("write it as --var name=value")
		}
		values[name] = value
	}
	return values, nil
}

// failed tells whether the file must not run.
func (p *pipelineFile) failed() bool { return p.plan == nil }

// worth are the findings people should see: all but information.
func (p *pipelineFile) worth() []lang.Finding {
	var out []lang.Finding
	for _, f := range p.findings {
		if f.Severity != lang.Info {
			out = append(out, f)
		}
	}
	return out
}

// render gives findings with the lines they are about.
func (p *pipelineFile) render(findings []lang.Finding) string {
	return check.Render(findings, p.text)
}
