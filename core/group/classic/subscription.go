package classic

import "encoding/binary"

// ConsumerProtocolType is the protocol type of Kafka's consumers, whose metadata the coordinator
// reads to know which topics are in use. That of all other types is opaque.
const ConsumerProtocolType = "consumer"

// Subscribed says whether any member subscribes to the topic. Known is false if that cannot be
// told: the group is not one of consumers, or a member's metadata is not a subscription.
type Subscribed struct {
	Known  bool
	topics map[string]struct{}
}

// Has says whether the topic is in use, or may be.
func (s Subscribed) Has(topic string) bool {
	if !s.Known {
		return true
	}
	_, ok := s.topics[topic]
	return ok
}

// Subscriptions reads the topics all members subscribe to.
func (g *Group) Subscriptions() Subscribed {
	if g.protocolType != ConsumerProtocolType || g.protocol == "" {
		return Subscribed{Known: len(g.members) == 0}
	}
	s := Subscribed{Known: true, topics: make(map[string]struct{})}
	for _, m := range g.members {
		if !readSubscription(m.metadata(g.protocol), s.topics) {
			return Subscribed{}
		}
	}
	return s
}

// readSubscription adds the topics of a ConsumerProtocolSubscription: version int16, array of
// string, and what later versions append, which is not needed here.
func readSubscription(b []byte, topics map[string]struct{}) bool {
	if len(b) < 6 {
		return false
	}
	count := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; count > 0; count-- {
		if len(b) < 2 {
			return false
		}
		n := int(int16(binary.BigEndian.Uint16(b)))
		if n < 0 || n > len(b)-2 {
			return false
		}
		topics[string(b[2:2+n])] = struct{}{}
		b = b[2+n:]
	}
	return true
}
