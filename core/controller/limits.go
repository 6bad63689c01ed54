package controller

import "github.com/millstream-io/millstream/core/metadata"

// Names of the configs that bound partitions.
const (
	partitionsMax      = "millstream.partitions.max"
	topicPartitionsMax = "millstream.topic.partitions.max"
)

// partitionCount is how many partitions there are, without those of the cluster's own topics.
func partitionCount(img *metadata.Image) (n int64) {
	for t := range img.Topics() {
		if !t.Internal {
			n += int64(len(t.Partitions))
		}
	}
	return n
}

// tooMany refuses a topic that is to have so many partitions, by which all would be total.
func tooMany(img *metadata.Image, topic string, partitions int32, total int64) *Error {
	if metadata.IsInternalTopic(topic) {
		return nil
	}
	if most := img.BrokerConfigInt(topicPartitionsMax, 0); most > 0 && int64(partitions) > most {
		return refuse(ErrPolicyViolation, "Topic '%s' would have %d partitions, and %s=%d", topic,
			partitions, topicPartitionsMax, most)
	}
	if most := img.BrokerConfigInt(partitionsMax, 0); most > 0 && total > most {
		return refuse(ErrPolicyViolation, "With topic '%s' there would be %d partitions, and %s=%d",
			topic, total, partitionsMax, most)
	}
	return nil
}
