package metadata

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// defaultReplicas is how many replicas a topic has for which no setting says a number, if there are
// as many brokers.
const defaultReplicas = 3

// ConfigSource says where a value comes from, with the numbers of DescribeConfigs.
type ConfigSource int8

// The sources, in the order in which they win.
const (
	SourceTopic          ConfigSource = 1 // set on the topic
	SourceBroker         ConfigSource = 2 // set on this broker while it runs
	SourceClusterDefault ConfigSource = 3 // set on all brokers while they run
	SourceStatic         ConfigSource = 4 // this broker was started with it
	SourceDefault        ConfigSource = 5 // built in
	SourceBrokerLogger   ConfigSource = 6 // the level of a logger
	SourceClientMetrics  ConfigSource = 7 // set on a subscription to clients' metrics
	SourceGroup          ConfigSource = 8 // set on a group
)

// ConfigSynonym is one place a value could come from.
type ConfigSynonym struct {
	Name   string
	Value  string
	Source ConfigSource
}

// ConfigValue is a setting's value in force.
type ConfigValue struct {
	Def    *ConfigDef
	Value  string
	Null   bool // there is no value
	Source ConfigSource
	// Synonyms are all values found, the one in force first.
	Synonyms []ConfigSynonym
}

// TopicConfigs returns the settings of a topic in name order, hidden ones only if set.
func (i *Image) TopicConfigs(t *Topic) []ConfigValue {
	list := make([]ConfigValue, 0, len(topicConfigs))
	for _, def := range topicConfigs {
		if _, set := t.Configs[def.Name]; set || !def.Hidden {
			list = append(list, i.topicValue(t.Configs, def))
		}
	}
	return list
}

// DefaultTopicConfigs returns what TopicConfigs would for a topic with the given settings.
func (i *Image) DefaultTopicConfigs(configs map[string]string) []ConfigValue {
	return i.TopicConfigs(&Topic{Configs: configs})
}

// BrokerConfigs returns the settings of a broker in name order. For ClusterDefault it returns only
// the dynamic settings of all brokers. Static settings are those of this image's node.
func (i *Image) BrokerConfigs(id int32) []ConfigValue {
	if id == ClusterDefault {
		var list []ConfigValue
		for _, name := range slices.Sorted(maps.Keys(i.brokerConfigs[id])) {
			if def, ok := LookupBrokerConfig(name); ok {
				value := i.brokerConfigs[id][name]
				list = append(list, ConfigValue{Def: def, Value: value, Source: SourceClusterDefault,
					Synonyms: []ConfigSynonym{{name, value, SourceClusterDefault}}})
			}
		}
		return list
	}
	list := make([]ConfigValue, 0, len(brokerConfigs))
	for _, def := range brokerConfigs {
		if !def.Hidden {
			list = append(list, i.brokerValue(id, def))
		}
	}
	return list
}

// BrokerConfigValue returns the value in force of this node's setting, "" for null. The name must
// be of a known setting.
func (i *Image) BrokerConfigValue(name string) string {
	def, ok := LookupBrokerConfig(name)
	if !ok {
		return ""
	}
	return i.brokerValue(i.nodeID, def).Value
}

// BrokerConfigInt returns a whole-number setting of this node, or fallback if it is null.
func (i *Image) BrokerConfigInt(name string, fallback int64) int64 {
	n, err := strconv.ParseInt(i.BrokerConfigValue(name), 10, 64)
	if err != nil {
		return fallback
	}
	return n
}

func (i *Image) topicValue(configs map[string]string, def *ConfigDef) ConfigValue {
	var found []ConfigSynonym
	if value, ok := configs[def.Name]; ok {
		found = append(found, ConfigSynonym{def.Name, value, SourceTopic})
	}
	for _, name := range def.BrokerSynonyms {
		found = i.appendSet(found, i.nodeID, name)
	}
	// As in Kafka, a default in another unit is no synonym.
	if n := len(def.BrokerSynonyms); n > 0 && !def.NoDefault &&
		unitSynonyms[def.BrokerSynonyms[n-1]] == 0 && !brokerNull[def.BrokerSynonyms[n-1]] {
		found = append(found, ConfigSynonym{def.BrokerSynonyms[n-1], def.Default, SourceDefault})
	}
	if len(found) == 0 {
		return ConfigValue{Def: def, Value: def.Default, Null: def.NoDefault, Source: SourceDefault}
	}
	value := valueOf(def, found)
	value.Value = multiply(value.Value, unitSynonyms[found[0].Name])
	return value
}

func (i *Image) brokerValue(id int32, def *ConfigDef) ConfigValue {
	if value, ok := i.identityValue(id, def.Name); ok {
		found := []ConfigSynonym{{def.Name, value, SourceStatic}}
		if !def.NoDefault && def.Name != nodeIDConfig {
			found = append(found, ConfigSynonym{def.Name, def.Default, SourceDefault})
		}
		return valueOf(def, found)
	}
	found := i.appendSet(nil, id, def.Name)
	switch {
	case !def.NoDefault:
		found = append(found, ConfigSynonym{def.Name, def.Default, SourceDefault})
	case strings.HasSuffix(def.Name, "replication.factor"):
		// Follows the number of brokers; tools want to read a number.
		replicas := strconv.Itoa(max(1, min(defaultReplicas, len(i.brokers))))
		found = append(found, ConfigSynonym{def.Name, replicas, SourceDefault})
	}
	return valueOf(def, found)
}

// identityValue returns the settings that a broker's registration tells.
func (i *Image) identityValue(id int32, name string) (string, bool) {
	switch name {
	case brokerIDConfig, nodeIDConfig:
		return strconv.Itoa(int(id)), true
	case listenersConfig, advertisedListenersConfig:
		if _, given := i.static[name]; given {
			return "", false
		}
		if b, ok := i.Broker(id); ok && len(b.Endpoints) == 0 {
			return endpoints([]Endpoint{b.Endpoint("")}), true
		} else if ok {
			return endpoints(b.Endpoints), true
		}
	}
	return "", false
}

// endpoints lists addresses as advertised.listeners does.
func endpoints(list []Endpoint) string {
	var text []string
	for _, e := range list {
		text = append(text, e.Listener+"://"+net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
	}
	return strings.Join(text, ",")
}

// appendSet appends where a broker setting is set.
func (i *Image) appendSet(found []ConfigSynonym, broker int32, name string) []ConfigSynonym {
	sources := [...]struct {
		values map[string]string
		source ConfigSource
	}{
		{i.brokerConfigs[broker], SourceBroker},
		{i.brokerConfigs[ClusterDefault], SourceClusterDefault},
		{i.static, SourceStatic},
	}
	for _, s := range sources {
		if value, ok := s.values[name]; ok {
			found = append(found, ConfigSynonym{name, value, s.source})
		}
	}
	return found
}

func valueOf(def *ConfigDef, found []ConfigSynonym) ConfigValue {
	if len(found) == 0 {
		return ConfigValue{Def: def, Null: true, Source: SourceDefault}
	}
	return ConfigValue{
		Def: def, Value: found[0].Value, Source: found[0].Source, Synonyms: found,
	}
}

// multiply scales a whole number; -1 (no limit) stays.
func multiply(value string, factor int64) string {
	if n := number(value); factor != 0 && n > 0 {
		return strconv.FormatInt(n*factor, 10)
	}
	return value
}

func divide(value string, factor int64) string {
	if n := number(value); n > 0 {
		return strconv.FormatInt(n/factor, 10)
	}
	return value
}

// splitList returns the elements of a List value, without blanks.
func splitList(value string) []string {
	var list []string
	for element := range strings.SplitSeq(value, ",") {
		if e := strings.TrimSpace(element); e != "" {
			list = append(list, e)
		}
	}
	return list
}
