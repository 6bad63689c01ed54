package metadata

import (
	"cmp"
	"slices"
)

// FeatureLevel is the level of a feature; 0 is off.
type FeatureLevel int16

// Names of features (KIP-584).
const (
	MetadataVersion    = "metadata.version"
	TransactionVersion = "transaction.version" // 2: KIP-890
	GroupVersion       = "group.version"       // 1: KIP-848
)

// FeatureDef is a feature with the levels that this build can work at.
type FeatureDef struct {
	Name     string
	Min, Max FeatureLevel
	// Default is the level of a cluster in which nobody has changed it.
	Default FeatureLevel
}

// featureDefs are the features of Kafka 4.3 that are served. Levels of metadata.version are shown
// to tools and mean nothing else here: the metadata's records have versions of their own.
var featureDefs = []FeatureDef{
	{Name: GroupVersion, Max: 1, Default: 1},
	{Name: MetadataVersion, Min: 7, Max: 30, Default: 30},
	{Name: TransactionVersion, Max: 2, Default: 2},
}

// FeatureDefs returns the features in name order.
func FeatureDefs() []FeatureDef { return featureDefs }

// LookupFeature returns the definition of a feature.
func LookupFeature(name string) (FeatureDef, bool) {
	at, ok := slices.BinarySearchFunc(featureDefs, name, func(d FeatureDef, name string) int {
		return cmp.Compare(d.Name, name)
	})
	if !ok {
		return FeatureDef{}, false
	}
	return featureDefs[at], true
}

// FeatureLevel returns the level at which a feature is finalized, 0 if it is off or not known.
func (i *Image) FeatureLevel(name string) FeatureLevel {
	def, ok := LookupFeature(name)
	if !ok {
		return 0
	}
	if level, set := i.features[name]; set {
		return level
	}
	return def.Default
}

// FeaturesEpoch returns a number that rises whenever a level changes.
func (i *Image) FeaturesEpoch() int64 { return i.featuresEpoch }
