package metadata

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// groupConfigDefs are the settings that a group can have of its own (KIP-848). Those of share and
// streams groups are not here, since such groups are not.
var groupConfigDefs = sorted([]*ConfigDef{
	{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", Min: 1, Max: topInt,
		BrokerSynonyms: []string{"group.consumer.session.timeout.ms"},
		Doc:            "Session timeout of the group's members, in milliseconds."},
	{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Min: 1, Max: topInt,
		BrokerSynonyms: []string{"group.consumer.heartbeat.interval.ms"},
		Doc:            "Time between heartbeats of the group's members, in milliseconds."},
	{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Min: 0, Max: topInt,
		BrokerSynonyms: []string{"group.consumer.assignment.interval.ms"},
		Doc:            "Least time between two assignments of the group, in milliseconds."},
})

const inertTelemetry = "clients are not asked for metrics"

// metricsConfigDefs are the settings of subscriptions to metrics of clients (KIP-714).
var metricsConfigDefs = sorted([]*ConfigDef{
	{Name: "interval.ms", Type: Int, Default: "300000", Min: 100, Max: 3_600_000,
		Inert: inertTelemetry, Doc: "Time between two pushes of a client, in milliseconds."},
	{Name: "match", Type: List, Default: "", Check: clientMatches, Inert: inertTelemetry,
		Doc: "Clients that are asked, as selector=regular expression; none is all clients."},
	{Name: "metrics", Type: List, Default: "", Inert: inertTelemetry,
		Doc: "Prefixes of the names of metrics that are asked for; none is no metrics."},
})

var clientSelectors = []string{"client_id", "client_instance_id", "client_software_name",
	"client_software_version", "client_source_address", "client_source_port"}

// clientMatches accepts a list of selector=regular expression.
func clientMatches(value string) string {
	for element := range strings.SplitSeq(value, ",") {
		if value == "" {
			break
		}
		selector, pattern, _ := strings.Cut(element, "=")
		if !slices.Contains(clientSelectors, selector) {
			return fmt.Sprintf("%q is not one of %s", selector, strings.Join(clientSelectors, ", "))
		}
		if _, err := regexp.Compile(pattern); err != nil {
			return err.Error()
		}
	}
	return ""
}

// ResourceKind is what settings belong to, with the numbers of the protocol.
type ResourceKind int8

// The kinds of resources.
const (
	ResourceTopic         ResourceKind = 2
	ResourceBroker        ResourceKind = 4
	ResourceBrokerLogger  ResourceKind = 8
	ResourceClientMetrics ResourceKind = 16
	ResourceGroup         ResourceKind = 32
)

// ResourceConfigDefs returns the definitions of a group's or a metrics subscription's settings, in
// name order; nil for other kinds.
func ResourceConfigDefs(kind ResourceKind) []*ConfigDef {
	switch kind {
	case ResourceGroup:
		return groupConfigDefs
	case ResourceClientMetrics:
		return metricsConfigDefs
	}
	return nil
}

// LookupResourceConfig returns the definition of a group's or a metrics subscription's setting.
func LookupResourceConfig(kind ResourceKind, name string) (*ConfigDef, bool) {
	return lookup(ResourceConfigDefs(kind), name)
}

// groupBounds are the broker settings between which a group's setting must be.
var groupBounds = map[string][2]string{
	"consumer.session.timeout.ms": {
		"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	"consumer.heartbeat.interval.ms": {
		"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	"consumer.assignment.interval.ms": {
		"group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
}

// ValidateResourceConfigs checks all settings that a group or a metrics subscription would have,
// each and together. The error is a *ConfigError, of the first fault in name order.
func (i *Image) ValidateResourceConfigs(kind ResourceKind, configs map[string]string) error {
	for _, name := range sortedKeys(configs) {
		def, ok := LookupResourceConfig(kind, name)
		if !ok {
			return &ConfigError{Name: name, Reason: "Unknown config name: " + name}
		}
		if err := def.Validate(configs[name]); err != nil {
			return err
		}
		bounds, bounded := groupBounds[name]
		if kind != ResourceGroup || !bounded {
			continue
		}
		least, most := i.BrokerConfigInt(bounds[0], 0), i.BrokerConfigInt(bounds[1], topIntValue)
		if n := number(configs[name]); n < least || n > most {
			return &ConfigError{Name: name, Reason: fmt.Sprintf("%s %d is not between %s=%d and %s=%d",
				name, n, bounds[0], least, bounds[1], most)}
		}
	}
	session, heartbeat := "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	if kind != ResourceGroup {
		return nil
	}
	value := func(name string) int64 {
		def, _ := LookupResourceConfig(kind, name)
		return number(i.resourceValue(kind, configs, def).Value)
	}
	if value(session) <= value(heartbeat) {
		return &ConfigError{Name: heartbeat,
			Reason: fmt.Sprintf("%s must be less than %s", heartbeat, session)}
	}
	return nil
}

// ResourceConfigs returns the settings of a group or a metrics subscription in name order. A name
// that nobody set anything for has the defaults.
func (i *Image) ResourceConfigs(kind ResourceKind, name string) []ConfigValue {
	defs, own := ResourceConfigDefs(kind), i.ResourceConfig(kind, name)
	list := make([]ConfigValue, 0, len(defs))
	for _, def := range defs {
		list = append(list, i.resourceValue(kind, own, def))
	}
	return list
}

// GroupConfigInt returns a whole-number setting of a group: its own, or that of the broker.
func (i *Image) GroupConfigInt(group, name string, fallback int64) int64 {
	def, ok := LookupResourceConfig(ResourceGroup, name)
	if !ok {
		return fallback
	}
	return number(i.resourceValue(ResourceGroup, i.ResourceConfig(ResourceGroup, group), def).Value)
}

func (i *Image) resourceValue(
	kind ResourceKind, own map[string]string, def *ConfigDef,
) ConfigValue {
	var found []ConfigSynonym
	if value, ok := own[def.Name]; ok {
		source := SourceGroup
		if kind == ResourceClientMetrics {
			source = SourceClientMetrics
		}
		found = append(found, ConfigSynonym{def.Name, value, source})
	}
	for _, name := range def.BrokerSynonyms {
		found = i.appendSet(found, i.nodeID, name)
		found = append(found, ConfigSynonym{name, def.Default, SourceDefault})
	}
	value := valueOf(def, found)
	if len(found) == 0 {
		value.Null, value.Value = false, def.Default
	}
	return value
}
