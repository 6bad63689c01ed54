package client

import (
	"context"
	"time"
)

// GroupOptions describe a member of a group that shares work. The log keeps the membership: who is
// in, who speaks for all (the leader), who has gone.
type GroupOptions struct {
	// Group is its id.
	Group string
	// Instance, if set, makes the member static: when it is away for less than Session, it comes
	// back as who it was and nothing moves.
	Instance string
	// Session is how long a member that is not heard of stays in; 0 is 45 s.
	Session time.Duration
	// Rebalance is how long a member may take to join again when it is asked to; 0 is 60 s.
	Rebalance time.Duration
	// Topics and Owned are what tools show of a member.
	Topics []string
	Owned  func(assignment []byte) []TopicPartition
	// Claim returns what the member tells the leader when it joins.
	Claim func() []byte
	// Assign, called at the leader, returns what each member gets.
	Assign func(claims map[string][]byte) map[string][]byte
}

func (o GroupOptions) withDefaults() GroupOptions {
	if o.Session == 0 {
		o.Session = 45 * time.Second
	}
	if o.Rebalance == 0 {
		o.Rebalance = 60 * time.Second
	}
	if o.Owned == nil {
		o.Owned = func([]byte) []TopicPartition { return nil }
	}
	return o
}

// Member is a place in a group. Next belongs to one goroutine.
type Member interface {
	// Next returns what the member got in the next generation of the group. The first call joins;
	// later ones wait until the group asks its members to join again, and join. What was assigned
	// before stays the member's until it joins.
	Next(ctx context.Context) ([]byte, error)
	// Rejoin asks for a new generation. It does not wait.
	Rejoin()
	// Close ends the membership. A static member stays in the group for its session, unless leave
	// says that it is gone for good.
	Close(ctx context.Context, leave bool)
}
