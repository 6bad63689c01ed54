package topology

import "github.com/millstream-io/millstream/streams/join"

// JoinStreams joins two streams by key and event time. Their topics must have the same number of
// partitions, keyed alike. left and right may be the same stream.
func (b *Builder) JoinStreams(id, left, right string, o join.StreamOptions) {
	if o.Store == "" {
		o.Store = id
	}
	if err := o.Validate(); err != nil {
		b.fault("join %q: %w", id, err)
	}
	b.Process(id, []string{left, right}, ProcessOptions{Kind: "join", New: join.NewStreams(o),
		Stores: o.Stores(), Late: o.Late, OnError: o.OnError})
}
