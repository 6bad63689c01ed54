package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// connector looks a connector up and validates its config.
func (c *checker) connector(name lang.Text, config *lang.Tree, role Role,
	owner lang.Pos) *Component {
	if c.catalog == nil {
		return nil
	}
	component, err := c.catalog.Connector(name.Value, role)
	if err != nil {
		known := c.catalog.Connectors(role)
		hint := "known: " + strings.Join(known, ", ")
		if near := lang.Nearest(name.Value, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		message := fmt.Sprintf("there is no %s connector %q", role, name.Value)
		if !errors.Is(err, ErrUnknown) {
			message, hint = fmt.Sprintf("the connector %q cannot be used: %v", name.Value, err), ""
		}
		c.report(name.Pos, len(name.Value), CodeUnknownConnector, message, hint)
		return nil
	}
	c.config(component, config, owner)
	return component
}

// operator looks a plugin's operator up and validates its config.
func (c *checker) operator(use *PluginUse, tree *lang.PluginUse) *Component {
	if c.catalog == nil {
		return nil
	}
	component, err := c.catalog.Operator(PluginRef{Alias: use.Alias, Source: use.Source},
		use.Operator)
	missing, noSource := errors.AsType[*NoSourceError](err)
	switch {
	case noSource:
		c.noSource(use.Alias, missing)
	case errors.Is(err, ErrUnknown):
		message := fmt.Sprintf("the plugin %q has no operator %q", use.Alias, use.Operator)
		if use.Operator == "" {
			message = fmt.Sprintf("the plugin %q has several operators", use.Alias)
		}
		c.report(tree.Use.Pos, len(tree.Use.Value), CodeUnknownPlugin, message,
			"say  use: "+use.Alias+"/operator")
	case err != nil:
		c.report(tree.Use.Pos, len(tree.Use.Value), CodePlugin,
			fmt.Sprintf("the plugin %q cannot be used: %s", use.Alias,
				strings.TrimPrefix(err.Error(), fmt.Sprintf("plugin %q: ", use.Alias))), "")
	case component != nil:
		c.config(component, &tree.Config, tree.Pos)
		return component
	}
	return nil
}

// noSource reports a plugin whose folder is not there, where it is declared and once.
func (c *checker) noSource(alias string, missing *NoSourceError) {
	decl, _ := c.tree.Plugins.Get(alias)
	at := decl.Source
	if slices.ContainsFunc(c.findings, func(f lang.Finding) bool {
		return f.Code == CodePlugin && f.Line == at.Pos.Line && f.Col == at.Pos.Col
	}) {
		return
	}
	hint := "name the folder of the plugin's source, relative to this file"
	if missing.Near != "" {
		hint = fmt.Sprintf("did you mean %s?", missing.Near)
	}
	c.report(at.Pos, len(at.Value), CodePlugin, fmt.Sprintf("plugin %q: %v", alias, missing), hint)
}

// config validates settings against a component's schema, then by the component itself.
func (c *checker) config(component *Component, config *lang.Tree, owner lang.Pos) {
	if !config.Set {
		*config = lang.Tree{Pos: owner, Kind: lang.TreeMap, Set: true}
	}
	if len(component.ConfigSchema) > 0 {
		var schema map[string]any
		if err := json.Unmarshal(component.ConfigSchema, &schema); err != nil {
			c.report(config.Pos, 1, CodeConfig,
				fmt.Sprintf("the settings' own schema cannot be read: %v", err), "")
			return
		}
		faults := validate(schema, config)
		for _, f := range faults {
			c.report(f.at, f.width, CodeConfig, f.message, f.hint)
		}
		if len(faults) > 0 {
			return
		}
	}
	if component.Validate == nil {
		return
	}
	for _, d := range component.Validate(config.JSON()) {
		at := config.At(d.Pointer)
		c.report(at, 1, CodeConfig, d.Message, d.Hint)
		if d.Warning {
			c.findings[len(c.findings)-1].Severity = lang.Warning
		}
	}
}
