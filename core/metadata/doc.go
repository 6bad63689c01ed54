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
// are looked up under the setting's broker synonyms. A definition that is not Applied is kept and
// shown, and says in its Doc that it changes nothing yet.
//
// # Goroutines
//
// None. A Delta is for one goroutine.
package metadata
