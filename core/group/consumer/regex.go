package consumer

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// minRefresh is the least time between two resolutions of a group's expressions; Kafka's value.
const minRefresh = 10 * time.Second

// regexChange is what a request changes about a member's expression.
type regexChange int

const (
	regexUnchanged regexChange = iota
	// regexUpdated: the topics of the new expression are not known yet. The group epoch rises when
	// they are.
	regexUpdated
	// regexResolved: another member has it, so that its topics are known; or there is none any
	// more.
	regexResolved
)

// compile makes an expression that matches whole names. Kafka uses RE2/J, of the same syntax.
func compile(expression string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err // told about what the client wrote
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// updateRegex follows a member's expression, and has the group's expressions resolved if that is
// due.
func (g *Group) updateRegex(now time.Time, old, updated *member, fx *Effects,
) (regexChange, *refusal) {
	before, after := old.expression(), updated.expression()
	change, refresh := regexUnchanged, false
	if before != after || (old.regex == nil) != (updated.regex == nil) {
		change = regexUpdated
		if before != "" && g.subscribers[before] == 1 {
			g.writeRegex(now, before, nil, fx)
		}
		_, resolved := g.regexes[after]
		switch {
		case after == "" && before != "":
			change = regexResolved
		case after == "":
		case g.subscribers[after] == 0:
			if _, err := compile(after); err != nil {
				return change, refuse(coordinator.CodeInvalidRegularExpression,
					"SubscribedTopicRegex `%s` is not a valid regular expression: %v.", after, err)
			}
			refresh = true
		case resolved:
			change = regexResolved
		}
	}
	g.maybeResolve(now, before, after, refresh)
	return change, nil
}

// maybeResolve arms the resolution of the expressions, counted with the change from before to
// after.
func (g *Group) maybeResolve(now time.Time, before, after string, refresh bool) {
	if !refresh && len(g.subscribers) == 0 || g.resolve.Armed() {
		return
	}
	last := int64(math.MinInt64)
	for _, x := range g.regexes {
		last = x.Timestamp
	}
	if last > math.MinInt64 && now.UnixMilli() <= last+minRefresh.Milliseconds() {
		return
	}
	expressions := g.expressions()
	if before != after {
		if before != "" && g.subscribers[before] == 1 {
			delete(expressions, before)
		}
		if after != "" {
			expressions[after] = struct{}{}
		}
	}
	if len(expressions) == 0 {
		return
	}
	due := refresh || len(expressions) != len(g.regexes) ||
		now.UnixMilli() > last+g.config.RegexRefreshInterval.Milliseconds()
	if due || g.newMatches() {
		g.timers.Arm(&g.resolve, now)
	}
}

// expressions is what members subscribe to by expression.
func (g *Group) expressions() map[string]struct{} {
	set := make(map[string]struct{}, len(g.subscribers))
	for x := range g.subscribers {
		set[x] = struct{}{}
	}
	return set
}

// newMatches says that the topics have changed in a way that matters to the expressions. It looks
// once at each version of the topics.
func (g *Group) newMatches() bool {
	topics := g.config.Topics()
	if topics.Version() == g.scanned {
		return false
	}
	g.scanned = topics.Version()
	for expression, matched := range g.match(topics, g.expressions()) {
		if !slices.Equal(matched, g.regexes[expression].Topics) {
			return true
		}
	}
	return false
}

// match lists the topics that each expression matches, of those that the client may know of. One
// that is no expression matches none.
func (g *Group) match(topics Topics, expressions map[string]struct{},
) map[string][]string {
	compiled := make(map[string]*regexp.Regexp, len(expressions))
	matched := make(map[string][]string, len(expressions))
	for expression := range expressions {
		matched[expression] = nil
		if re, err := compile(expression); err == nil {
			compiled[expression] = re
		}
	}
	for name := range topics.Names() {
		if g.visible != nil && !g.visible(name) {
			continue
		}
		for expression, re := range compiled {
			if re.MatchString(name) {
				matched[expression] = append(matched[expression], name)
			}
		}
	}
	for expression := range matched {
		slices.Sort(matched[expression])
	}
	return matched
}

// resolveRegexes writes what the expressions match now, and a new group epoch if that differs.
func (g *Group) resolveRegexes(now time.Time, fx *Effects) {
	expressions := g.expressions()
	if len(expressions) == 0 {
		return
	}
	topics := g.config.Topics()
	matched := g.match(topics, expressions)
	bump := false
	after := maps.Clone(g.regexes)
	for _, expression := range slices.Sorted(maps.Keys(matched)) {
		bump = bump || !slices.Equal(matched[expression], g.regexes[expression].Topics)
		x := offsets.ConsumerRegex{
			Topics: matched[expression], Version: topics.Version(), Timestamp: now.UnixMilli(),
		}
		after[expression] = x
		g.writeRegex(now, expression, x.Append(), fx)
	}
	before := g.regexes
	g.regexes = after
	hash := hashTopics(topics, g.topicNames(g.members))
	g.regexes = before // until the records are durable
	if bump || hash != g.hash {
		g.writeEpoch(now, g.epoch+1, hash, fx)
		g.hashedVersion, g.hashedEpoch = topics.Version(), g.epoch+1
	}
}

func (g *Group) writeRegex(now time.Time, expression string, value []byte, fx *Effects) {
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerRegex, Regex: expression}, value)
}
