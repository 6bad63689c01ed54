package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/metadata"
)

// ResourceType is what a setting belongs to, with the numbers of the protocol.
type ResourceType = metadata.ResourceKind

// The resources whose settings the cluster keeps.
const (
	ResourceTopic         = metadata.ResourceTopic
	ResourceBroker        = metadata.ResourceBroker
	ResourceClientMetrics = metadata.ResourceClientMetrics
	ResourceGroup         = metadata.ResourceGroup
)

// ConfigOp is what to do with a setting, with the numbers of IncrementalAlterConfigs.
type ConfigOp int8

// The operations.
const (
	OpSet      ConfigOp = 0
	OpDelete   ConfigOp = 1
	OpAppend   ConfigOp = 2 // adds to a list
	OpSubtract ConfigOp = 3 // takes from a list
)

// ConfigChange changes one setting.
type ConfigChange struct {
	Key   string
	Op    ConfigOp
	Value *string // ignored by OpDelete
}

// ConfigResource is a topic, broker, group or metrics subscription whose settings change together,
// or not at all.
type ConfigResource struct {
	Type ResourceType
	Name string // topic, broker id, or "" for all brokers
	// Replace sets exactly the named settings and removes the others, as the older AlterConfigs
	// does; all changes must then be OpSet.
	Replace bool
	Changes []ConfigChange
}

// AlterConfigs changes settings. The errors, nil for what is done, are in the order of the
// resources. With validateOnly nothing changes.
func (c *Controller) AlterConfigs(
	ctx context.Context, resources []ConfigResource, validateOnly bool,
) ([]error, error) {
	var replies []*storedError
	if err := c.do(ctx, &alterConfigs{resources, validateOnly}, &replies); err != nil {
		return nil, err
	}
	errs := make([]error, len(replies))
	for i, r := range replies {
		errs[i] = r.err()
	}
	return errs, nil
}

type alterConfigs struct {
	resources    []ConfigResource
	validateOnly bool
}

func (c *alterConfigs) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]*storedError, len(c.resources))
	type target struct {
		t    ResourceType
		name string
	}
	asked := make(map[target]int)
	for _, r := range c.resources {
		asked[target{r.Type, r.Name}]++
	}
	for i, r := range c.resources {
		if asked[target{r.Type, r.Name}] > 1 {
			replies[i] = storeError(refuse(ErrInvalidRequest,
				"resource %q is in the request more than once", r.Name))
			continue
		}
		made, refused := planConfigs(img, r)
		replies[i] = storeError(refused)
		records = append(records, made...)
	}
	if c.validateOnly {
		return nil, replies
	}
	return records, replies
}

func planConfigs(img *metadata.Image, r ConfigResource) ([]metadata.Record, *Error) {
	switch r.Type {
	case ResourceTopic:
		return planTopicConfigs(img, r)
	case ResourceBroker:
		return planBrokerConfigs(img, r)
	case ResourceClientMetrics, ResourceGroup:
		return planResourceConfigs(img, r)
	}
	return nil, refuse(ErrInvalidRequest,
		"settings of resource type %d cannot be changed, only those of topics (%d), brokers (%d), "+
			"metrics subscriptions (%d) and groups (%d)",
		r.Type, ResourceTopic, ResourceBroker, ResourceClientMetrics, ResourceGroup)
}

func planTopicConfigs(img *metadata.Image, r ConfigResource) ([]metadata.Record, *Error) {
	t, ok := img.Topic(r.Name)
	switch err := metadata.ValidateTopicName(r.Name); {
	case ok:
	case r.Name == "":
		return nil, refuse(ErrInvalidRequest, "the topic has no name")
	case err != nil:
		return nil, refuse(ErrInvalidTopicName, "%v", err)
	default:
		return nil, refuse(ErrUnknownTopic, "The topic '%s' does not exist.", r.Name)
	}
	inForce := func(key string) (*metadata.ConfigDef, string, bool) {
		def, ok := metadata.LookupTopicConfig(key)
		if !ok {
			return nil, "", false
		}
		for _, v := range img.TopicConfigs(t) {
			if v.Def == def {
				return def, v.Value, true
			}
		}
		return def, "", true
	}
	after, refused := changed(t.Configs, r, inForce)
	if refused != nil {
		return nil, refused
	}
	if err := metadata.ValidateTopicConfigs(after); err != nil {
		return nil, configError(err)
	}
	var records []metadata.Record
	for _, d := range differences(t.Configs, after) {
		records = append(records,
			&metadata.TopicConfigRecord{TopicID: t.ID, Key: d.key, Value: d.value})
	}
	return records, nil
}

// planResourceConfigs changes a group or a metrics subscription. Neither need exist: Kafka too
// keeps the settings of groups to come.
func planResourceConfigs(img *metadata.Image, r ConfigResource) ([]metadata.Record, *Error) {
	if r.Name == "" {
		return nil, refuse(ErrInvalidRequest, "the resource has no name")
	}
	before := img.ResourceConfig(r.Type, r.Name)
	inForce := func(key string) (*metadata.ConfigDef, string, bool) {
		def, ok := metadata.LookupResourceConfig(r.Type, key)
		if !ok {
			return nil, "", false
		}
		for _, v := range img.ResourceConfigs(r.Type, r.Name) {
			if v.Def == def {
				return def, v.Value, true
			}
		}
		return def, "", true
	}
	after, refused := changed(before, r, inForce)
	if refused == nil {
		if err := img.ValidateResourceConfigs(r.Type, after); err != nil {
			refused = resourceError(r.Type, after, err)
		}
	}
	if refused != nil {
		return nil, refused
	}
	var records []metadata.Record
	for _, d := range differences(before, after) {
		records = append(records, &metadata.ResourceConfigRecord{
			Kind: r.Type, Name: r.Name, Key: d.key, Value: d.value})
	}
	return records, nil
}

// resourceError is configError, but a number outside of its range is an invalid request where it is
// of a metrics subscription, as in Kafka.
func resourceError(kind ResourceType, configs map[string]string, err error) *Error {
	refused := configError(err)
	var ce *metadata.ConfigError
	if kind == ResourceClientMetrics && errors.As(err, &ce) && ce.Name == "interval.ms" {
		if _, notNumber := strconv.ParseInt(configs[ce.Name], 10, 32); notNumber == nil {
			refused.Kind = ErrInvalidRequest
		}
	}
	return refused
}

func planBrokerConfigs(img *metadata.Image, r ConfigResource) ([]metadata.Record, *Error) {
	id := metadata.ClusterDefault
	if r.Name != "" {
		n, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil {
			return nil, refuse(ErrInvalidRequest, "Node id must be an integer, but it is: %s", r.Name)
		}
		id = int32(n)
		if _, ok := img.Broker(id); !ok {
			return nil, refuse(ErrInvalidRequest, "there is no broker %d", id)
		}
	}
	before := img.BrokerConfig(id)
	inForce := func(key string) (*metadata.ConfigDef, string, bool) {
		def, ok := metadata.LookupBrokerConfig(key)
		if !ok {
			return nil, "", false
		}
		if value, set := before[key]; set {
			return def, value, true
		}
		return def, img.BrokerConfigValue(key), true
	}
	after, refused := changed(before, r, inForce)
	if refused != nil {
		return nil, refused
	}
	var records []metadata.Record
	for _, d := range differences(before, after) {
		if d.value != nil {
			if err := metadata.ValidateBrokerConfig(d.key, *d.value); err != nil {
				return nil, configError(err)
			}
		}
		records = append(records,
			&metadata.BrokerConfigRecord{BrokerID: id, Key: d.key, Value: d.value})
	}
	return records, nil
}

// changed returns a resource's own settings after its changes. inForce looks a setting up: its
// definition, the value in force, and whether there is such a setting.
func changed(
	before map[string]string, r ConfigResource,
	inForce func(key string) (*metadata.ConfigDef, string, bool),
) (map[string]string, *Error) {
	after := make(map[string]string)
	if !r.Replace {
		maps.Copy(after, before)
	}
	seen := make(map[string]bool)
	for _, ch := range r.Changes {
		if seen[ch.Key] {
			return nil, refuse(ErrInvalidRequest, "config %q is changed more than once", ch.Key)
		}
		seen[ch.Key] = true
		def, present, known := inForce(ch.Key)
		switch {
		case !known && ch.Op == OpDelete:
			delete(after, ch.Key) // of an older build, or never there: it is gone either way
			continue
		case !known && r.Type == ResourceClientMetrics:
			return nil, refuse(ErrInvalidRequest, "Unknown config name: %s", ch.Key) // as in Kafka
		case !known:
			return nil, refuse(ErrInvalidConfig, "Unknown %s config name: %s", kindNames[r.Type], ch.Key)
		case r.Replace && ch.Op != OpSet:
			return nil, refuse(ErrInvalidRequest, "config %s can only be set when all are replaced", ch.Key)
		case ch.Op == OpDelete:
			delete(after, ch.Key)
			continue
		case ch.Value == nil:
			return nil, refuse(ErrInvalidRequest, "config %s has no value", ch.Key)
		case ch.Op == OpSet:
			after[ch.Key] = def.Normalize(*ch.Value)
			continue
		case ch.Op != OpAppend && ch.Op != OpSubtract:
			return nil, refuse(ErrInvalidRequest, "operation %d on %s is not known", ch.Op, ch.Key)
		case def.Type != metadata.List:
			return nil, refuse(ErrInvalidConfig,
				"Can't %s to key %s because its type is not LIST.", opNames[ch.Op], ch.Key)
		}
		after[ch.Key] = editList(present, *ch.Value, ch.Op == OpAppend)
	}
	return after, nil
}

// The names of kinds of resources and of operations in messages.
var (
	kindNames = map[ResourceType]string{
		ResourceTopic: "topic", ResourceBroker: "broker", ResourceGroup: "group"}
	opNames = map[ConfigOp]string{OpAppend: "APPEND", OpSubtract: "SUBTRACT"}
)

// editList adds elements that are not there yet, or takes elements away.
func editList(list, edit string, add bool) string {
	elements := func(text string) []string {
		var out []string
		for e := range strings.SplitSeq(text, ",") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
		return out
	}
	have, named := elements(list), elements(edit)
	if !add {
		have = slices.DeleteFunc(have, func(e string) bool { return slices.Contains(named, e) })
		return strings.Join(have, ",")
	}
	for _, e := range named {
		if !slices.Contains(have, e) {
			have = append(have, e)
		}
	}
	return strings.Join(have, ",")
}

type difference struct {
	key   string
	value *string // nil = removed
}

// differences returns what leads from one set of settings to another, in key order.
func differences(before, after map[string]string) []difference {
	var list []difference
	for key := range before {
		if _, still := after[key]; !still {
			list = append(list, difference{key, nil})
		}
	}
	for key, value := range after {
		if old, was := before[key]; !was || old != value {
			list = append(list, difference{key, &value})
		}
	}
	slices.SortFunc(list, func(a, b difference) int { return strings.Compare(a.key, b.key) })
	return list
}
