package deploy

import (
	"context"
	"errors"
	"time"
)

// matchTimeout bounds how long a look for new topics may hold up what else a keeper has to do.
const matchTimeout = 2 * time.Second

// match looks now and then whether the patterns of sources find topics that the running revision
// does not read, and applies it again with them. The new one is an order like any other: it is
// drained to, and if it cannot begin the old one runs again and the status says why.
func (k *keeper) match(ctx context.Context) {
	if k.running == nil || k.running.ended() || time.Since(k.matchedAt) < k.opts.MatchEvery {
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
	ctx, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	matched, more, err := m.Matches(ctx)
	if err != nil || !more {
		return // the status tells of a broker that does not answer
	}
	r := p.revision
	r.Matched = matched
	applied, err := k.opts.Store.Follow(ctx, r)
	switch {
	case errors.Is(err, ErrConflict): // somebody wants something else; that comes as an order
	case err != nil:
		k.opts.Logger.Warn("new topics are not read yet", "pipeline", k.name, "error", err)
	default:
		k.opts.Logger.Info("new topics match and are read", "pipeline", k.name,
			"revision", applied.Number, "topics", matched)
	}
}
