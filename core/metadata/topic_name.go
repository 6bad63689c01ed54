package metadata

import (
	"fmt"
	"strings"
)

// maxTopicName keeps a partition's directory name within the 255 bytes of common file systems.
const maxTopicName = 249

// Names of the cluster's own topics.
const (
	ConsumerOffsets  = "__consumer_offsets"
	TransactionState = "__transaction_state"
)

// IsInternalTopic reports whether a topic of that name is the cluster's own.
func IsInternalTopic(name string) bool {
	return name == ConsumerOffsets || name == TransactionState || name == "__share_group_state"
}

// ValidateTopicName checks the rules of Kafka: 1 to 249 of the characters a-z A-Z 0-9 . _ - and
// neither "." nor "..". The error is ErrInvalidTopicName with the reason.
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the empty string is not allowed", ErrInvalidTopicName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: '%s' is not allowed", ErrInvalidTopicName, name)
	case len(name) > maxTopicName:
		return fmt.Errorf("%w: the length of '%s' is longer than the max allowed length %d",
			ErrInvalidTopicName, name, maxTopicName)
	}
	for i := range len(name) {
		if !topicNameByte(name[i]) {
			return fmt.Errorf("%w: '%s' contains one or more characters other than ASCII "+
				"alphanumerics, '.', '_' and '-'", ErrInvalidTopicName, name)
		}
	}
	return nil
}

func topicNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}

// CollidingTopic returns a topic whose name differs from name only in '.' against '_'. Kafka
// refuses such pairs, because metric names turn both into '_'.
func (i *Image) CollidingTopic(name string) (string, bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	folded := strings.ReplaceAll(name, ".", "_")
	for _, t := range i.topics {
		if len(t.Name) != len(name) || t.Name == name {
			continue
		}
		if strings.ReplaceAll(t.Name, ".", "_") == folded {
			return t.Name, true
		}
	}
	return "", false
}
