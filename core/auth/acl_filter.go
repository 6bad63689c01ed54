package auth

import (
	"strings"

	"github.com/millstream-io/millstream/core/metadata"
)

// Filter picks access rules. Nil fields are any.
type Filter struct {
	ResourceType metadata.ACLResourceType
	Name         *string
	Pattern      metadata.ACLPatternType
	Principal    *string
	Host         *string
	Operation    metadata.ACLOperation
	Permission   metadata.ACLPermission
}

// Valid tells whether every part is one that filters know.
func (f *Filter) Valid() bool {
	return f.ResourceType >= metadata.ACLAnyResource && f.ResourceType <= metadata.ACLUser &&
		f.Pattern >= metadata.ACLAnyPattern && f.Pattern <= metadata.ACLPrefixed &&
		f.Operation >= metadata.ACLAnyOperation && f.Operation <= metadata.ACLTwoPhaseCommit &&
		f.Permission >= metadata.ACLAnyPermission && f.Permission <= metadata.ACLAllow
}

// Pick returns the rules that match, in order.
func (f *Filter) Pick(acls *metadata.ACLs) []metadata.ACL {
	var list []metadata.ACL
	for _, a := range acls.All() {
		if f.matches(&a) {
			list = append(list, a)
		}
	}
	return list
}

func (f *Filter) matches(a *metadata.ACL) bool {
	return (f.ResourceType == metadata.ACLAnyResource || f.ResourceType == a.ResourceType) &&
		f.matchesName(a) &&
		(f.Principal == nil || *f.Principal == a.Principal) &&
		(f.Host == nil || *f.Host == a.Host) &&
		(f.Operation == metadata.ACLAnyOperation || f.Operation == a.Operation) &&
		(f.Permission == metadata.ACLAnyPermission || f.Permission == a.Permission)
}

func (f *Filter) matchesName(a *metadata.ACL) bool {
	switch f.Pattern {
	case metadata.ACLAnyPattern:
		return f.Name == nil || *f.Name == a.Name
	case metadata.ACLMatch:
		switch {
		case f.Name == nil:
			return true
		case a.Pattern == metadata.ACLPrefixed:
			return strings.HasPrefix(*f.Name, a.Name)
		}
		return a.Name == *f.Name || a.Name == wildcard
	}
	return f.Pattern == a.Pattern && (f.Name == nil || *f.Name == a.Name)
}
