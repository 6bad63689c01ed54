package auth

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/metadata"
)

// anyone is the principal of rules for everybody.
const anyone = "User:*"

// wildcard is the host, and the literal resource name, of rules for all.
const wildcard = "*"

// Authorizer decides what clients may do.
type Authorizer struct {
	// superUsers may do everything.
	superUsers map[string]bool
	// openByDefault allows what no rule speaks of.
	openByDefault bool
	// latest is the index of the rules that were asked about last.
	latest atomic.Pointer[index]
}

// NewAuthorizer makes an authorizer; openByDefault is allow.everyone.if.no.acl.found.
func NewAuthorizer(superUsers map[string]bool, openByDefault bool) *Authorizer {
	return &Authorizer{superUsers: superUsers, openByDefault: openByDefault}
}

// index finds the rules of a resource.
type index struct {
	of    *metadata.ACLs // what it was made of
	types [int(metadata.ACLUser) + 1]typeIndex
}

// typeIndex has the rules of a resource type.
type typeIndex struct {
	literal, prefixed map[string][]metadata.ACL
	// lengths are those of the prefixes, each once.
	lengths []int
}

func newIndex(acls *metadata.ACLs) *index {
	x := &index{of: acls}
	for _, a := range acls.All() {
		if a.ResourceType < 0 || int(a.ResourceType) >= len(x.types) {
			continue
		}
		t := &x.types[a.ResourceType]
		if t.literal == nil {
			t.literal, t.prefixed = map[string][]metadata.ACL{}, map[string][]metadata.ACL{}
		}
		if a.Pattern == metadata.ACLPrefixed {
			t.prefixed[a.Name] = append(t.prefixed[a.Name], a)
			if !slices.Contains(t.lengths, len(a.Name)) {
				t.lengths = append(t.lengths, len(a.Name))
			}
		} else {
			t.literal[a.Name] = append(t.literal[a.Name], a)
		}
	}
	return x
}

func (a *Authorizer) indexOf(acls *metadata.ACLs) *index {
	x := a.latest.Load()
	if x == nil || x.of != acls {
		x = newIndex(acls)
		a.latest.Store(x)
	}
	return x
}

// each calls fn with the lists of rules whose pattern covers name, until it returns false.
func (t *typeIndex) each(name string, fn func([]metadata.ACL) bool) {
	if !fn(t.literal[name]) || name != wildcard && !fn(t.literal[wildcard]) {
		return
	}
	for _, n := range t.lengths {
		if n <= len(name) && !fn(t.prefixed[name[:n]]) {
			return
		}
	}
}

// Allowed decides whether who may do op on the resource, by the given rules.
func (a *Authorizer) Allowed(acls *metadata.ACLs, who Identity, op metadata.ACLOperation,
	kind metadata.ACLResourceType, name string,
) bool {
	if a.superUsers[who.Principal] {
		return true
	}
	t := &a.indexOf(acls).types[kind]
	found, allowed, denied := false, false, false
	t.each(name, func(rules []metadata.ACL) bool {
		for i := range rules {
			r := &rules[i]
			found = true
			if !applies(r, who) {
				continue
			}
			switch {
			case r.Permission == metadata.ACLDeny:
				denied = denied || r.Operation == op || r.Operation == metadata.ACLAll
			default:
				allowed = allowed || implies(r.Operation, op)
			}
		}
		return !denied
	})
	return !denied && (allowed || !found && a.openByDefault)
}

// applies tells whether a rule is about a client.
func applies(r *metadata.ACL, who Identity) bool {
	return (r.Principal == who.Principal || r.Principal == anyone) &&
		(r.Host == wildcard || r.Host == who.Host)
}

// implies tells whether to allow one operation is to allow the other.
func implies(granted, op metadata.ACLOperation) bool {
	if granted == op || granted == metadata.ACLAll {
		return true
	}
	switch op {
	case metadata.ACLDescribe:
		return granted == metadata.ACLRead || granted == metadata.ACLWrite ||
			granted == metadata.ACLDelete || granted == metadata.ACLAlter
	case metadata.ACLDescribeConfigs:
		return granted == metadata.ACLAlterConfigs
	}
	return false
}

// noSuchResource is a name that a resource is hardly called: what is allowed on it is allowed on
// all that has no rules of its own.
const noSuchResource = "hardcode"

// AllowedOnAny decides whether there is a resource of a kind on which who may do op: one that a
// rule allows and none denies.
func (a *Authorizer) AllowedOnAny(acls *metadata.ACLs, who Identity, op metadata.ACLOperation,
	kind metadata.ACLResourceType,
) bool {
	if a.Allowed(acls, who, op, kind, noSuchResource) {
		return true
	}
	t := &a.indexOf(acls).types[kind]
	allows := func(rules []metadata.ACL) bool {
		return slices.ContainsFunc(rules, func(r metadata.ACL) bool {
			return r.Permission == metadata.ACLAllow && applies(&r, who) && implies(r.Operation, op)
		})
	}
	denies := func(rules []metadata.ACL) bool {
		return slices.ContainsFunc(rules, func(r metadata.ACL) bool {
			return r.Permission == metadata.ACLDeny && applies(&r, who) &&
				(r.Operation == op || r.Operation == metadata.ACLAll)
		})
	}
	if denies(t.literal[wildcard]) {
		return false
	}
	deniedPrefix := func(name string) bool {
		for prefix, rules := range t.prefixed {
			if strings.HasPrefix(name, prefix) && denies(rules) {
				return true
			}
		}
		return false
	}
	for name, rules := range t.literal {
		// "*" is allowed on all names, of which some are denied by nobody.
		if allows(rules) && (name == wildcard || !denies(rules) && !deniedPrefix(name)) {
			return true
		}
	}
	for prefix, rules := range t.prefixed {
		if allows(rules) && !deniedPrefix(prefix) {
			return true
		}
	}
	return false
}

// operations are what can be done on resources of a kind, in the order of their numbers.
var operations = map[metadata.ACLResourceType][]metadata.ACLOperation{
	metadata.ACLTopic: {metadata.ACLRead, metadata.ACLWrite, metadata.ACLCreate, metadata.ACLDelete,
		metadata.ACLAlter, metadata.ACLDescribe, metadata.ACLDescribeConfigs,
		metadata.ACLAlterConfigs},
	metadata.ACLGroup: {metadata.ACLRead, metadata.ACLDelete, metadata.ACLDescribe,
		metadata.ACLDescribeConfigs, metadata.ACLAlterConfigs},
	metadata.ACLCluster: {metadata.ACLCreate, metadata.ACLAlter, metadata.ACLDescribe,
		metadata.ACLClusterAction, metadata.ACLDescribeConfigs, metadata.ACLAlterConfigs,
		metadata.ACLIdempotentWrite},
}

// Operations returns what who may do on a resource, as the bit field of KIP-430. A nil Authorizer
// allows everything.
func (a *Authorizer) Operations(acls *metadata.ACLs, who Identity, kind metadata.ACLResourceType,
	name string,
) int32 {
	var bits int32
	for _, op := range operations[kind] {
		if a == nil || a.Allowed(acls, who, op, kind, name) {
			bits |= 1 << op
		}
	}
	return bits
}
