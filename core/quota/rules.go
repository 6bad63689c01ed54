package quota

import (
	"net/netip"

	"github.com/millstream-io/millstream/core/metadata"
)

// Kind is what a quota bounds.
type Kind uint8

// The kinds of quotas of users and client ids.
const (
	Produce  Kind = iota // bytes of Produce requests a second
	Fetch                // bytes of Fetch answers a second
	Request              // percent of one processor's time
	Mutation             // partitions made or removed a second
	kinds
)

// String returns the name under which a kind is counted.
func (k Kind) String() string {
	return [kinds]string{"produce", "fetch", "request", "controller_mutation"}[k]
}

// keys are the quotas' names by kind.
var keys = [kinds]string{metadata.QuotaProduce, metadata.QuotaFetch, metadata.QuotaRequest,
	metadata.QuotaMutation}

// level is one line of the order in which quotas are looked up.
type level struct{ user, clientID metadata.QuotaPartKind }

// levels are in order; see the package's text.
var levels = [...]level{
	{metadata.QuotaNamed, metadata.QuotaNamed},
	{metadata.QuotaNamed, metadata.QuotaDefault},
	{metadata.QuotaNamed, metadata.QuotaAbsent},
	{metadata.QuotaDefault, metadata.QuotaNamed},
	{metadata.QuotaDefault, metadata.QuotaDefault},
	{metadata.QuotaDefault, metadata.QuotaAbsent},
	{metadata.QuotaAbsent, metadata.QuotaNamed},
	{metadata.QuotaAbsent, metadata.QuotaDefault},
}

// key is who uses a quota together.
type key struct {
	user, clientID string
	// whole tells that it is of all client ids of the user, so that this is no client id "".
	whole bool
	// shared is the key of all for whom there was no room.
	shared bool
}

// rules are the quotas in force; immutable.
type rules struct {
	source *metadata.ClientQuotas
	// of has the bounds of each kind, used the levels at which it has any.
	of   [kinds]map[metadata.QuotaEntity]float64
	used [kinds][]level
	// connections are new connections a second by address, others those of all other addresses, 0
	// for no bound.
	connections map[string]float64
	others      float64
}

func newRules(q *metadata.ClientQuotas) *rules {
	r := &rules{source: q, connections: make(map[string]float64)}
	for _, e := range q.Entities() {
		values := q.Get(e)
		if n, ok := values[metadata.QuotaConnections]; ok && e.IP.Kind == metadata.QuotaDefault {
			r.others = n
		} else if ok {
			r.connections[address(e.IP.Name)] = n
		}
		for k, name := range keys {
			if bound, ok := values[name]; ok {
				if r.of[k] == nil {
					r.of[k] = make(map[metadata.QuotaEntity]float64)
				}
				r.of[k][e] = bound
			}
		}
	}
	for k := range r.of {
		for _, l := range levels {
			for e := range r.of[k] {
				if e.User.Kind == l.user && e.ClientID.Kind == l.clientID {
					r.used[k] = append(r.used[k], l)
					break
				}
			}
		}
	}
	return r
}

// address is the form in which connections have an address.
func address(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return a.Unmap().WithZone("").String()
}

// find returns the quota of a client, and with whom it shares it.
func (r *rules) find(kind Kind, user, clientID string) (k key, bound float64, ok bool) {
	part := func(kind metadata.QuotaPartKind, name string) metadata.QuotaPart {
		if kind != metadata.QuotaNamed {
			name = ""
		}
		return metadata.QuotaPart{Kind: kind, Name: name}
	}
	for _, l := range r.used[kind] {
		bound, ok = r.of[kind][metadata.QuotaEntity{
			User: part(l.user, user), ClientID: part(l.clientID, clientID)}]
		if !ok {
			continue
		}
		if l.user != metadata.QuotaAbsent {
			k.user = user
		}
		if k.whole = l.clientID == metadata.QuotaAbsent; !k.whole {
			k.clientID = clientID
		}
		return k, bound, true
	}
	return k, 0, false
}
