package metadata

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a setting's value, with the numbers of DescribeConfigs.
type ConfigType int8

// The types in use.
const (
	Boolean  ConfigType = 1
	String   ConfigType = 2
	Int      ConfigType = 3
	Short    ConfigType = 4
	Long     ConfigType = 5
	Double   ConfigType = 6
	List     ConfigType = 7 // comma separated
	Class    ConfigType = 8
	Password ConfigType = 9
)

// ConfigDef defines a setting of topics or brokers.
type ConfigDef struct {
	Name    string
	Type    ConfigType
	Default string // "" where NoDefault is set, and for empty strings and lists
	Doc     string // for users
	// BrokerSynonyms of a topic setting are the broker settings that give its default, the first
	// that is set wins.
	BrokerSynonyms []string
	Enum           []string // allowed values, of each element for a List; nil = any
	Min, Max       float64  // bounds of a number, both included; both 0 = those of the type
	NoDefault      bool     // null unless set
	ReadOnly       bool     // a broker setting that only a restart changes
	Sensitive      bool     // never shown
	Hidden         bool     // accepted, not listed
	Applied        bool     // false: kept and shown, changes nothing yet
}

// DisplayDoc returns Doc and, where the setting is not Applied, a sentence that says so.
func (d *ConfigDef) DisplayDoc() string {
	if d.Applied {
		return d.Doc
	}
	return d.Doc + " (Kept and shown; it changes nothing yet.)"
}

// Validate checks a value's form and range. The error is a *ConfigError.
func (d *ConfigDef) Validate(value string) error {
	var reason string
	switch d.Type {
	case Boolean:
		if value != "true" && value != "false" {
			reason = fmt.Sprintf("%q is not true or false", value)
		}
	case Int, Short, Long, Double:
		reason = d.checkNumber(value)
	case List:
		for element := range strings.SplitSeq(value, ",") {
			if e := strings.TrimSpace(element); d.Enum != nil && !slices.Contains(d.Enum, e) {
				reason = fmt.Sprintf("%q is not one of %s", e, strings.Join(d.Enum, ", "))
			}
		}
	default:
		if d.Enum != nil && !slices.Contains(d.Enum, value) {
			reason = fmt.Sprintf("%q is not one of %s", value, strings.Join(d.Enum, ", "))
		}
	}
	if reason != "" {
		return &ConfigError{Name: d.Name, Reason: reason}
	}
	return nil
}

// checkNumber returns what is wrong with a number, or "".
func (d *ConfigDef) checkNumber(value string) string {
	var number float64
	if d.Type == Double {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) {
			return fmt.Sprintf("%q is not a number", value)
		}
		number = n
	} else {
		bits := map[ConfigType]int{Short: 16, Int: 32, Long: 64}[d.Type]
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil {
			return fmt.Sprintf("%q is not a whole number of %d bits", value, bits)
		}
		number = float64(n)
	}
	switch {
	case d.Min == 0 && d.Max == 0:
	case number < d.Min:
		return fmt.Sprintf("%s is less than %v", value, strconv.FormatFloat(d.Min, 'f', -1, 64))
	case number > d.Max:
		return fmt.Sprintf("%s is more than %v", value, strconv.FormatFloat(d.Max, 'f', -1, 64))
	}
	return ""
}

// TopicConfigDefs returns the definitions of topic settings in name order, hidden ones included.
func TopicConfigDefs() []*ConfigDef { return topicConfigs }

// BrokerConfigDefs returns the definitions of broker settings in name order.
func BrokerConfigDefs() []*ConfigDef { return brokerConfigs }

// LookupTopicConfig returns the definition of a topic setting.
func LookupTopicConfig(name string) (*ConfigDef, bool) { return lookup(topicConfigs, name) }

// LookupBrokerConfig returns the definition of a broker setting.
func LookupBrokerConfig(name string) (*ConfigDef, bool) { return lookup(brokerConfigs, name) }

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
		return &ConfigError{Name: name, Reason: "no such topic config"}
	}
	if err := def.Validate(value); err != nil {
		return err
	}
	if strings.HasPrefix(name, "remote.") && value == "true" {
		return &ConfigError{Name: name, Reason: "tiered storage is not supported"}
	}
	return nil
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
			Reason: fmt.Sprintf("%s is more than max.compaction.lag.ms %s", least, most)}
	}
	return nil
}

// ValidateBrokerConfig checks a dynamic setting of brokers. The error is a *ConfigError, also for a
// name that is not known or that only a restart can change.
func ValidateBrokerConfig(name, value string) error {
	def, ok := LookupBrokerConfig(name)
	if !ok {
		return &ConfigError{Name: name, Reason: "no such broker config"}
	}
	if def.ReadOnly {
		return &ConfigError{Name: name, Reason: "it cannot be changed while the broker runs"}
	}
	return def.Validate(value)
}

// ValidateStaticConfigs checks the settings a broker is started with.
func ValidateStaticConfigs(configs map[string]string) error {
	for _, name := range sortedKeys(configs) {
		def, ok := LookupBrokerConfig(name)
		if !ok {
			return &ConfigError{Name: name, Reason: "no such broker config"}
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
