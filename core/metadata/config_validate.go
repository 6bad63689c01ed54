package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// TopicConfigDefs returns the definitions of topic settings in name order, hidden ones included.
func TopicConfigDefs() []*ConfigDef { return topicConfigs }

// BrokerConfigDefs returns the definitions of broker settings in name order.
func BrokerConfigDefs() []*ConfigDef { return brokerConfigs }

// LookupTopicConfig returns the definition of a topic setting.
func LookupTopicConfig(name string) (*ConfigDef, bool) { return lookup(topicConfigs, name) }

// LookupBrokerConfig returns the definition of a broker setting.
// One of a single listener, listener.name.{listener}.{setting}, is found too.
func LookupBrokerConfig(name string) (*ConfigDef, bool) {
	if def, ok := lookup(brokerConfigs, name); ok {
		return def, true
	}
	return lookupListenerConfig(name)
}

func lookup(defs []*ConfigDef, name string) (*ConfigDef, bool) {
	at, ok := slices.BinarySearchFunc(defs, name, func(d *ConfigDef, name string) int {
		return strings.Compare(d.Name, name)
	})
	if !ok {
		return nil, false
	}
	return defs[at], true
}

// sorted orders definitions by name, for lookup.
func sorted(defs []*ConfigDef) []*ConfigDef {
	slices.SortFunc(defs, func(a, b *ConfigDef) int { return strings.Compare(a.Name, b.Name) })
	return defs
}

// ValidateTopicConfig checks one setting of a topic. The error is a *ConfigError, also for a name
// that is not known.
func ValidateTopicConfig(name, value string) error {
	def, ok := LookupTopicConfig(name)
	if !ok {
		return &ConfigError{Name: name, Reason: "Unknown topic config name: " + name}
	}
	return def.Validate(value)
}

// ValidateTopicConfigs checks all settings a topic would have, each and together. The first fault
// in name order is returned.
func ValidateTopicConfigs(configs map[string]string) error {
	for _, name := range sortedKeys(configs) {
		if err := ValidateTopicConfig(name, configs[name]); err != nil {
			return err
		}
	}
	least, most := configs["min.compaction.lag.ms"], configs["max.compaction.lag.ms"]
	if least != "" && most != "" && number(least) > number(most) {
		return &ConfigError{Name: "min.compaction.lag.ms",
			Reason: fmt.Sprintf(
				"min.compaction.lag.ms %s is more than max.compaction.lag.ms %s", least, most)}
	}
	return nil
}

// ValidateBrokerConfig checks a dynamic setting of brokers. The error is a *ConfigError, also for a
// name that is not known or that only a restart can change.
func ValidateBrokerConfig(name, value string) error {
	def, ok := LookupBrokerConfig(name)
	switch {
	case !ok:
		return &ConfigError{Name: name, Reason: "Unknown broker config name: " + name}
	case def.ReadOnly:
		return fmt.Errorf("%w: [%s]", ErrReadOnlyConfig, name)
	}
	return def.Validate(value)
}

// ValidateStaticConfigs checks the settings a broker is started with.
func ValidateStaticConfigs(configs map[string]string) error {
	for _, name := range sortedKeys(configs) {
		def, ok := LookupBrokerConfig(name)
		if !ok {
			return &ConfigError{Name: name, Reason: "Unknown broker config name: " + name}
		}
		if err := def.Validate(configs[name]); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// number parses a validated whole number.
func number(value string) int64 {
	n, _ := strconv.ParseInt(value, 10, 64) // validated before it was stored
	return n
}
