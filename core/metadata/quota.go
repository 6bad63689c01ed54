package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// QuotaPart is one part of whom a client quota is for.
type QuotaPart struct {
	Kind QuotaPartKind
	Name string // "" unless Kind is QuotaNamed
}

// QuotaPartKind tells whom a part means.
type QuotaPartKind uint8

// The kinds of parts.
const (
	QuotaAbsent  QuotaPartKind = iota // the entity says nothing of it
	QuotaDefault                      // everyone that has no quota of their own
	QuotaNamed                        // one
)

// NamedQuota is the part that means one user, client id or address.
func NamedQuota(name string) QuotaPart { return QuotaPart{QuotaNamed, name} }

// DefaultQuota is the part that means all others.
var DefaultQuota = QuotaPart{Kind: QuotaDefault}

// QuotaEntity is whom a client quota is for (KIP-546): a user, a client id, a client id of a user,
// or an address.
type QuotaEntity struct {
	User, ClientID, IP QuotaPart
}

// The types of a quota entity's parts on the wire.
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// QuotaTypes are all types of parts.
var QuotaTypes = []string{QuotaUser, QuotaClientID, QuotaIP}

// Part returns the part of a type, nil for a type that is not known.
func (e *QuotaEntity) Part(kind string) *QuotaPart {
	switch kind {
	case QuotaUser:
		return &e.User
	case QuotaClientID:
		return &e.ClientID
	case QuotaIP:
		return &e.IP
	}
	return nil
}

func (e QuotaEntity) compare(o QuotaEntity) int {
	part := func(a, b QuotaPart) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	}
	return cmp.Or(part(e.User, o.User), part(e.ClientID, o.ClientID), part(e.IP, o.IP))
}

// String names the entity as Kafka does in messages.
func (e QuotaEntity) String() string {
	var text []string
	for _, kind := range QuotaTypes {
		switch p := e.Part(kind); p.Kind {
		case QuotaDefault:
			text = append(text, kind+"=null")
		case QuotaNamed:
			text = append(text, kind+"="+p.Name)
		}
	}
	return "ClientQuotaEntity(entries={" + strings.Join(text, ", ") + "})"
}

// The keys of client quotas.
const (
	QuotaProduce     = "producer_byte_rate"
	QuotaFetch       = "consumer_byte_rate"
	QuotaRequest     = "request_percentage"
	QuotaMutation    = "controller_mutation_rate"
	QuotaConnections = "connection_creation_rate"
)

// quotaKey is what a key takes.
type quotaKey struct {
	// ofIP tells that it is for addresses, all others are for users and client ids.
	ofIP bool
	// most is the largest value, fractions that it may have a fraction.
	most      float64
	kind      string
	fractions bool
}

var quotaKeys = map[string]quotaKey{
	QuotaProduce:     {most: math.MaxInt64, kind: "a LONG"},
	QuotaFetch:       {most: math.MaxInt64, kind: "a LONG"},
	QuotaRequest:     {most: math.MaxFloat64, fractions: true},
	QuotaMutation:    {most: math.MaxFloat64, fractions: true},
	QuotaConnections: {ofIP: true, most: math.MaxInt32, kind: "an INT"},
}

// Validate checks whom a quota is for, with Kafka's messages. Names of hosts are no addresses here:
// what they mean may change.
func (e QuotaEntity) Validate() error {
	for _, kind := range QuotaTypes {
		if p := e.Part(kind); p.Kind == QuotaNamed && p.Name == "" {
			return refuseQuota("Empty %s not supported", kind)
		}
	}
	switch {
	case e == QuotaEntity{}:
		return refuseQuota("Invalid empty client quota entity")
	case e.IP.Kind == QuotaAbsent:
		return nil
	case e.User.Kind != QuotaAbsent || e.ClientID.Kind != QuotaAbsent:
		return refuseQuota("Invalid quota entity combination, IP entity shouldnot be combined with " +
			"User or ClientId")
	case e.IP.Kind == QuotaNamed:
		if _, err := netip.ParseAddr(e.IP.Name); err != nil {
			return refuseQuota("%s is not a valid IP or resolvable host.", e.IP.Name)
		}
	}
	return nil
}

// ValidateQuota checks a key and its value for an entity that is valid itself, with Kafka's
// messages. What is no number or without end, which Kafka takes in part, would bound nothing.
func (e QuotaEntity) ValidateQuota(key string, value float64) error {
	k, known := quotaKeys[key]
	switch {
	case !known || k.ofIP != (e.IP.Kind != QuotaAbsent):
		return refuseQuota("Invalid configuration key %s", key)
	case math.IsNaN(value):
		return refuseQuota("Quota %s is not a number", key)
	case value <= 0:
		return refuseQuota("Quota %s must be greater than 0", key)
	case value > k.most && k.kind != "":
		return refuseQuota("Proposed value for %s is too large for %s.", key, k.kind)
	case value > k.most:
		return refuseQuota("Quota %s must be finite", key)
	case !k.fractions && math.Abs(math.Mod(value, 1)) > 1e-6:
		return refuseQuota("%s cannot be a fractional value.", key)
	}
	return nil
}

// QuotaError says what is wrong with a client quota.
type QuotaError struct {
	Reason string // a whole sentence
}

// Error returns the reason.
func (e *QuotaError) Error() string { return e.Reason }

func refuseQuota(format string, args ...any) error {
	return &QuotaError{fmt.Sprintf(format, args...)}
}

// ClientQuotas are all client quotas; immutable. Nil has none.
type ClientQuotas struct {
	entities map[QuotaEntity]map[string]float64
}

// Get returns the quotas of an entity itself, by key. The map may be nil.
func (q *ClientQuotas) Get(e QuotaEntity) map[string]float64 {
	if q == nil {
		return nil
	}
	return q.entities[e]
}

// Entities returns who has quotas, in order.
func (q *ClientQuotas) Entities() []QuotaEntity {
	if q == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(q.entities), QuotaEntity.compare)
}

// ClientQuotas returns the client quotas. It is the same pointer as long as none changes.
func (i *Image) ClientQuotas() *ClientQuotas { return i.quotas }

// ClientQuotaRecord sets one quota of an entity, or removes it.
type ClientQuotaRecord struct {
	Entity []QuotaPartRecord `json:"entity"`
	Key    string            `json:"key"`
	Value  *float64          `json:"value"` // nil removes
}

// QuotaPartRecord is the stored form of a part of a quota entity.
type QuotaPartRecord struct {
	Type string  `json:"type"`
	Name *string `json:"name"` // nil is the default
}

func (*ClientQuotaRecord) kind() (string, int) { return "clientQuota", 0 }

// NewClientQuotaRecord makes the record of one change.
func NewClientQuotaRecord(e QuotaEntity, key string, value *float64) *ClientQuotaRecord {
	r := &ClientQuotaRecord{Key: key, Value: value}
	for _, kind := range QuotaTypes {
		switch p := e.Part(kind); p.Kind {
		case QuotaDefault:
			r.Entity = append(r.Entity, QuotaPartRecord{Type: kind})
		case QuotaNamed:
			r.Entity = append(r.Entity, QuotaPartRecord{Type: kind, Name: &p.Name})
		}
	}
	return r
}

// entity is whom the record is about.
func (r *ClientQuotaRecord) entity() (e QuotaEntity, err error) {
	for _, p := range r.Entity {
		part := e.Part(p.Type)
		if part == nil || part.Kind != QuotaAbsent {
			return e, fmt.Errorf("quota entity with part %q: %w", p.Type, ErrBadRecord)
		}
		if *part = DefaultQuota; p.Name != nil {
			*part = NamedQuota(*p.Name)
		}
	}
	return e, nil
}

func (d *Delta) applyClientQuota(r *ClientQuotaRecord) error {
	entity, err := r.entity()
	if err != nil {
		return err
	}
	if !d.own.quotas {
		own := make(map[QuotaEntity]map[string]float64)
		if q := d.next.quotas; q != nil {
			own = maps.Clone(q.entities)
		}
		d.next.quotas, d.own.quotas = &ClientQuotas{own}, true
	}
	all := d.next.quotas.entities
	values := maps.Clone(all[entity])
	switch {
	case r.Value == nil:
		delete(values, r.Key)
	case values == nil:
		values = map[string]float64{r.Key: *r.Value}
	default:
		values[r.Key] = *r.Value
	}
	if all[entity] = values; len(values) == 0 {
		delete(all, entity)
	}
	return nil
}

// quotaRecords are the records of all client quotas.
func (i *Image) quotaRecords() (list []Record) {
	for _, e := range i.quotas.Entities() {
		values := i.quotas.Get(e)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := values[key]
			list = append(list, NewClientQuotaRecord(e, key, &value))
		}
	}
	return list
}
