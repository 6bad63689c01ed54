// Package metadata is what a cluster knows about itself: brokers, topics, partitions, configs, as
// an immutable Image that is replaced whole.
//
// # Path
//
// The controller turns commands into records; NewDelta(image).Apply(record) for each, then
// Delta.Image gives the next Image. Everyone else reads: Image.Topic, Image.TopicSettings,
// Image.TopicConfigs. A snapshot is the records of an image (Image.Records).
//
// # Invariants
//
// An Image and all it hands out never change; callers must not write into its slices and maps.
// Image.Version never falls from one image to the next of a node.
// Applying Image.Records to an empty image gives an equal image.
// Every partition has Leader = -1 or Leader in ISR, and ISR a subset of Replicas.
//
// # Configs
//
// TopicConfigDefs and BrokerConfigDefs list every setting that is accepted, as Kafka names them.
// The value of a topic's setting is, first found: the topic's own; the dynamic one of this broker;
// the dynamic one of all brokers; the one this node was started with; the default. The last four
// are looked up under the setting's broker synonyms. A definition that is Inert is kept and shown,
// and its text says why it changes nothing. core/CONFIGS.md is the table of all, made from the
// definitions by a test. Groups and subscriptions to clients' metrics have settings too.
//
// # Features
//
// FeatureDefs are what UpdateFeatures can change (KIP-584). A feature that nobody changed is at its
// default. FeaturesEpoch is the index of the entry that changed one last.
//
// # Goroutines
//
// None. A Delta is for one goroutine.
package metadata
