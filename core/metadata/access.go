package metadata

import (
	"cmp"
	"fmt"
	"slices"
)

// ACLResourceType is what an access rule is about, with the numbers of the protocol.
type ACLResourceType int8

// The types of resources.
const (
	ACLAnyResource     ACLResourceType = 1 // in filters only
	ACLTopic           ACLResourceType = 2
	ACLGroup           ACLResourceType = 3
	ACLCluster         ACLResourceType = 4
	ACLTransactionalID ACLResourceType = 5
	ACLDelegationToken ACLResourceType = 6
	ACLUser            ACLResourceType = 7
)

// ACLPatternType says how a rule's resource name is compared, with the numbers of the protocol.
type ACLPatternType int8

// The types of patterns.
const (
	ACLAnyPattern ACLPatternType = 1 // in filters only: any pattern of that very name
	ACLMatch      ACLPatternType = 2 // in filters only: any pattern that a resource of the name matches
	ACLLiteral    ACLPatternType = 3 // the name itself, or "*" for all
	ACLPrefixed   ACLPatternType = 4 // names that begin so
)

// ACLOperation is what a rule allows or denies, with the numbers of the protocol.
type ACLOperation int8

// The operations.
const (
	ACLAnyOperation    ACLOperation = 1 // in filters only
	ACLAll             ACLOperation = 2
	ACLRead            ACLOperation = 3
	ACLWrite           ACLOperation = 4
	ACLCreate          ACLOperation = 5
	ACLDelete          ACLOperation = 6
	ACLAlter           ACLOperation = 7
	ACLDescribe        ACLOperation = 8
	ACLClusterAction   ACLOperation = 9
	ACLDescribeConfigs ACLOperation = 10
	ACLAlterConfigs    ACLOperation = 11
	ACLIdempotentWrite ACLOperation = 12
	ACLCreateTokens    ACLOperation = 13
	ACLDescribeTokens  ACLOperation = 14
	ACLTwoPhaseCommit  ACLOperation = 15
)

// ACLPermission is whether a rule denies or allows, with the numbers of the protocol.
type ACLPermission int8

// The permissions.
const (
	ACLAnyPermission ACLPermission = 1 // in filters only
	ACLDeny          ACLPermission = 2
	ACLAllow         ACLPermission = 3
)

// ClusterResource is the one name that resources of type ACLCluster have.
const ClusterResource = "kafka-cluster"

// ACL is one access rule.
type ACL struct {
	ResourceType ACLResourceType `json:"resourceType"`
	Name         string          `json:"name"` // of the resource; "*" with ACLLiteral is all
	Pattern      ACLPatternType  `json:"pattern"`
	Principal    string          `json:"principal"` // "User:name", "User:*" for everybody
	Host         string          `json:"host"`      // an address, "*" for all
	Operation    ACLOperation    `json:"operation"`
	Permission   ACLPermission   `json:"permission"`
}

// compareACL orders rules, so that the order in an image depends on its content only.
func compareACL(a, b ACL) int {
	return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Principal, b.Principal),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(a.Permission, b.Permission))
}

// ACLs are the access rules of a cluster, in order. They never change: a change makes new ones, so
// that who keeps an index of them sees by the pointer that it is old.
type ACLs struct{ list []ACL }

// All returns the rules in order.
func (a *ACLs) All() []ACL {
	if a == nil {
		return nil
	}
	return a.list
}

// ACLs returns the access rules, nil for none.
func (i *Image) ACLs() *ACLs { return i.acls }

// ScramMechanism is a SCRAM mechanism, with the numbers of the protocol.
type ScramMechanism int8

// The mechanisms.
const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// ScramCredential is what the broker knows about a user's password (RFC 5802): nothing that lets
// the password be found but by guessing.
type ScramCredential struct {
	User       string         `json:"user"`
	Mechanism  ScramMechanism `json:"mechanism"`
	Salt       []byte         `json:"salt"`
	StoredKey  []byte         `json:"storedKey"` // H(ClientKey)
	ServerKey  []byte         `json:"serverKey"`
	Iterations int32          `json:"iterations"`
}

func compareScram(a, b ScramCredential) int {
	return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Mechanism, b.Mechanism))
}

// ScramCredentials returns all credentials, by user and mechanism.
func (i *Image) ScramCredentials() []ScramCredential { return i.scram }

// ScramCredential returns a user's credential of a mechanism.
func (i *Image) ScramCredential(user string, m ScramMechanism) (ScramCredential, bool) {
	wanted := ScramCredential{User: user, Mechanism: m}
	at, ok := slices.BinarySearchFunc(i.scram, wanted, compareScram)
	if !ok {
		return ScramCredential{}, false
	}
	return i.scram[at], true
}

// ACLRecord adds an access rule.
type ACLRecord struct{ ACL }

// ACLRemovedRecord removes an access rule.
type ACLRemovedRecord struct{ ACL }

// ScramRecord sets a user's credential of a mechanism.
type ScramRecord struct{ ScramCredential }

// ScramRemovedRecord removes a user's credential of a mechanism.
type ScramRemovedRecord struct {
	User      string         `json:"user"`
	Mechanism ScramMechanism `json:"mechanism"`
}

func (*ACLRecord) kind() (string, int)          { return "acl", 0 }
func (*ACLRemovedRecord) kind() (string, int)   { return "aclRemoved", 0 }
func (*ScramRecord) kind() (string, int)        { return "scram", 0 }
func (*ScramRemovedRecord) kind() (string, int) { return "scramRemoved", 0 }

// applyAccess applies a record of this file; known is false for others.
func (d *Delta) applyAccess(r Record) (known bool, err error) {
	switch r := r.(type) {
	case *ACLRecord:
		return true, d.applyACL(r.ACL, true)
	case *ACLRemovedRecord:
		return true, d.applyACL(r.ACL, false)
	case *ScramRecord:
		d.ownScram()
		at, found := slices.BinarySearchFunc(d.next.scram, r.ScramCredential, compareScram)
		if found {
			d.next.scram[at] = r.ScramCredential
		} else {
			d.next.scram = slices.Insert(d.next.scram, at, r.ScramCredential)
		}
		return true, nil
	case *ScramRemovedRecord:
		wanted := ScramCredential{User: r.User, Mechanism: r.Mechanism}
		at, found := slices.BinarySearchFunc(d.next.scram, wanted, compareScram)
		if !found {
			return true, fmt.Errorf("%q has no credential of mechanism %d: %w", r.User, r.Mechanism,
				ErrBadRecord)
		}
		d.ownScram()
		d.next.scram = slices.Delete(d.next.scram, at, at+1)
		return true, nil
	}
	return false, nil
}

func (d *Delta) ownScram() {
	if !d.own.scram {
		d.next.scram, d.own.scram = slices.Clone(d.next.scram), true
	}
}

// applyACL adds or removes a rule. One that is there already is no fault, one that is missing is.
func (d *Delta) applyACL(acl ACL, add bool) error {
	at, found := slices.BinarySearchFunc(d.next.acls.All(), acl, compareACL)
	switch {
	case add && found:
		return nil
	case !add && !found:
		return fmt.Errorf("access rule %+v is not there: %w", acl, ErrBadRecord)
	}
	if !d.own.acls {
		d.next.acls, d.own.acls = &ACLs{slices.Clone(d.next.acls.All())}, true
	}
	if add {
		d.next.acls.list = slices.Insert(d.next.acls.list, at, acl)
	} else {
		d.next.acls.list = slices.Delete(d.next.acls.list, at, at+1)
	}
	return nil
}

// accessRecords returns the records of the rules and credentials.
func (i *Image) accessRecords() []Record {
	var list []Record
	for _, acl := range i.acls.All() {
		list = append(list, &ACLRecord{acl})
	}
	for _, c := range i.scram {
		list = append(list, &ScramRecord{c})
	}
	return list
}
