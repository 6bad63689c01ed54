package deploy

import (
	"context"
	"errors"
	"time"
)

// matchTimeout bounds how long a look for new topics may hold up what else a keeper has to do;
// applying the revision that reads them has publishTimeout of its own.
const matchTimeout = 2 * time.Second

// match looks now and then whether the patterns of sources find topics that the running revision
// does not read, and applies it again with them. The new one is an order like any other: it is
// drained to, and if it cannot begin the old one runs again and the status says why.
func (k *keeper) match(ctx context.Context) {
	if k.running == nil || k.running.ended() || time.Since(k.matchedAt) < k.opts.MatchEvery ||
		k.ordered() {
		return
	}
	k.matchedAt = time.Now()
	p := k.running
	m, ok := p.instance.(Matcher)
	if !ok || p.revision.Number != k.number {
		return // a revision that could not begin is not tried again by itself
	}
	if st := p.status(); st.Follower || st.State != Running {
		return
	}
	looking, cancel := context.WithTimeout(ctx, matchTimeout)
	matched, more, err := m.Matches(looking)
	cancel()
	if err != nil || !more {
		return // the status tells of a broker that does not answer
	}
	r := p.revision
	r.Matched = matched
	ctx, cancel = context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	applied, err := k.opts.Store.Follow(ctx, r)
	switch {
	case errors.Is(err, ErrConflict): // somebody wants something else; that comes as an order
		k.opts.Logger.Info("new topics are not read, the pipeline is being changed", "pipeline",
			k.name, "error", err)
	case err != nil:
		k.opts.Logger.Warn("new topics are not read yet", "pipeline", k.name, "error", err)
	default:
		k.opts.Logger.Info("new topics match and are read", "pipeline", k.name,
			"revision", applied.Number, "topics", matched)
	}
}

// ordered tells whether there are orders that were not carried out yet.
func (k *keeper) ordered() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.mu.orders) > 0
}
