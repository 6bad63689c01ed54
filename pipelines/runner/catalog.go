package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// CatalogOptions say where connectors and plugins are found.
type CatalogOptions struct {
	// Connectors compiled into the binary.
	Connectors []sdk.Plugin
	// Dir is what the relative sources of plugins start from: the folder of the pipeline file.
	Dir string
	// Build makes plugins from source to ask them for their operators and settings. Without it
	// their settings are not checked.
	Build bool
	// CacheDir keeps built plugins; "" is the user's cache.
	CacheDir string
}

// Catalog tells the checks what connectors and plugins there are. Close ends what it started.
type Catalog struct {
	opts CatalogOptions
	mu   struct {
		sync.Mutex
		plugins map[string]*asked
	}
}

// asked is a plugin that was built and started to be asked about itself.
type asked struct {
	plugin *host.Plugin
	err    error
}

var _ check.Catalog = (*Catalog)(nil)

// NewCatalog returns a catalog; nothing is built before it is asked for.
func NewCatalog(opts CatalogOptions) *Catalog {
	c := &Catalog{opts: opts}
	c.mu.plugins = map[string]*asked{}
	return c
}

// Close ends the plugins that were started.
func (c *Catalog) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.mu.plugins {
		if a.plugin != nil {
			_ = a.plugin.Close() // it was only asked about itself
		}
	}
	clear(c.mu.plugins)
}

var roles = map[check.Role]pluginpb.Kind{
	check.RoleSource: pluginpb.Kind_KIND_SOURCE,
	check.RoleSink:   pluginpb.Kind_KIND_SINK,
}

// Connector implements check.Catalog.
func (c *Catalog) Connector(name string, role check.Role) (*check.Component, error) {
	for _, p := range c.opts.Connectors {
		if p.Name != name {
			continue
		}
		client, part, err := describe(p, roles[role])
		if err != nil {
			return nil, fmt.Errorf("%s connector %q: %w", role, name, err)
		}
		return connectorComponent(client, part), nil
	}
	return nil, fmt.Errorf("%s connector %q: %w", role, name, check.ErrUnknown)
}

// Connectors implements check.Catalog.
func (c *Catalog) Connectors(role check.Role) []string {
	var names []string
	for _, p := range c.opts.Connectors {
		if _, _, err := describe(p, roles[role]); err == nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// describe asks a compiled-in connector, in this process, for its part of a kind.
func describe(p sdk.Plugin, kind pluginpb.Kind) (pluginpb.PluginClient, *pluginpb.Part, error) {
	client, err := sdk.Local(p)
	if err != nil {
		return nil, nil, err
	}
	spec, err := client.Spec(context.Background(), &pluginpb.SpecRequest{})
	if err != nil {
		return nil, nil, err
	}
	for _, part := range spec.Parts {
		if part.Kind == kind {
			return client, part, nil
		}
	}
	return nil, nil, check.ErrUnknown
}

func connectorComponent(client pluginpb.PluginClient, part *pluginpb.Part) *check.Component {
	return &check.Component{
		ConfigSchema: part.ConfigSchema, Deterministic: part.Deterministic,
		Exact: part.Exact,
		Validate: func(config []byte) []check.Diagnostic {
			r, err := client.Validate(context.Background(),
				&pluginpb.ValidateRequest{Part: part.Name, Config: config})
			if err != nil {
				return []check.Diagnostic{{Message: err.Error()}}
			}
			var out []check.Diagnostic
			for _, d := range r.Diagnostics {
				out = append(out, check.Diagnostic{Pointer: d.Pointer, Message: d.Message,
					Hint: d.Hint})
			}
			return out
		},
	}
}

func diagnostics(found []sdk.Diagnostic) []check.Diagnostic {
	var out []check.Diagnostic
	for _, d := range found {
		out = append(out, check.Diagnostic{Pointer: d.Pointer, Message: d.Message, Hint: d.Hint})
	}
	return out
}

// Operator implements check.Catalog.
func (c *Catalog) Operator(ref check.PluginRef, operator string) (*check.Component, error) {
	if !c.opts.Build {
		return nil, nil
	}
	plugin, err := c.ask(ref)
	if err != nil {
		return nil, err
	}
	part, err := findPart(plugin.Spec(), operator)
	if err != nil {
		return nil, err
	}
	return &check.Component{
		ConfigSchema: part.ConfigSchema, Deterministic: part.Deterministic,
		Timers: part.Timers, WallTimers: part.WallTimers,
		Validate: func(config []byte) []check.Diagnostic {
			found, err := plugin.Validate(context.Background(), part.Name, config)
			if err != nil {
				return []check.Diagnostic{{Message: err.Error()}}
			}
			return diagnostics(found)
		},
	}, nil
}

func findPart(spec *pluginpb.SpecResponse, operator string) (*pluginpb.Part, error) {
	var operators []*pluginpb.Part
	for _, p := range spec.Parts {
		if p.Kind == pluginpb.Kind_KIND_OPERATOR && (operator == "" || p.Name == operator) {
			operators = append(operators, p)
		}
	}
	if len(operators) != 1 {
		return nil, fmt.Errorf("operator %q: %w", operator, check.ErrUnknown)
	}
	return operators[0], nil
}

// ask builds and starts a plugin once.
func (c *Catalog) ask(ref check.PluginRef) (*host.Plugin, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.mu.plugins[ref.Source]; ok {
		return a.plugin, a.err
	}
	a := &asked{}
	a.plugin, a.err = startPlugin(context.Background(), pluginSource{
		alias: ref.Alias, dir: resolve(c.opts.Dir, ref.Source), cacheDir: c.opts.CacheDir,
	})
	if errors.Is(a.err, fs.ErrNotExist) {
		if missing := noSource(c.opts.Dir, ref.Source); missing != nil {
			a.err = missing
		}
	}
	c.mu.plugins[ref.Source] = a
	return a.plugin, a.err
}

// noSource says that the folder of a plugin is not there, and which one beside it may be meant.
func noSource(dir, source string) error {
	folder := resolve(dir, source)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	missing := &check.NoSourceError{Source: source}
	beside, _ := os.ReadDir(filepath.Dir(folder)) // without it there is nothing to propose
	var names []string
	for _, e := range beside {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if near := lang.Nearest(filepath.Base(folder), names); near != "" {
		missing.Near = strings.TrimSuffix(source, filepath.Base(folder)) + near
	}
	return missing
}

// resolve makes a path of the pipeline file one of this process.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
