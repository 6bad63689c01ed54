package controller

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/core/metadata"
)

// CreateACLs adds access rules; those that are there already are fine. The errors are in the order
// of the rules, each nil or an *Error of kind ErrInvalidRequest.
func (c *Controller) CreateACLs(ctx context.Context, acls []metadata.ACL) ([]error, error) {
	var replies []*storedError
	if err := c.do(ctx, &createACLs{acls}, &replies); err != nil {
		return nil, err
	}
	return storedErrors(replies), nil
}

type createACLs struct{ acls []metadata.ACL }

// maxACLs bounds the access rules of a cluster: each request looks at those of its resource type.
const maxACLs = 100_000

func (c *createACLs) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]*storedError, len(c.acls))
	there := len(img.ACLs().All())
	for i, acl := range c.acls {
		refused := checkACL(acl)
		if refused == nil && there+len(records) >= maxACLs {
			refused = refuse(ErrInvalidRequest, "there are %d access rules, which is the most", maxACLs)
		}
		if replies[i] = storeError(refused); refused == nil {
			records = append(records, &metadata.ACLRecord{ACL: acl})
		}
	}
	return records, replies
}

// checkACL is Kafka's check of a rule.
func checkACL(a metadata.ACL) *Error {
	typ, name, ok := strings.Cut(a.Principal, ":")
	switch {
	case a.ResourceType < metadata.ACLTopic || a.ResourceType > metadata.ACLUser:
		return refuse(ErrInvalidRequest, "Invalid resource type %d", a.ResourceType)
	case a.Pattern != metadata.ACLLiteral && a.Pattern != metadata.ACLPrefixed:
		return refuse(ErrInvalidRequest, "Invalid pattern type %d", a.Pattern)
	case a.Operation < metadata.ACLAll || a.Operation > metadata.ACLTwoPhaseCommit:
		return refuse(ErrInvalidRequest, "Invalid operation %d", a.Operation)
	case a.Permission != metadata.ACLAllow && a.Permission != metadata.ACLDeny:
		return refuse(ErrInvalidRequest, "Invalid permission %d", a.Permission)
	case a.Name == "":
		return refuse(ErrInvalidRequest, "Resource name should not be empty")
	case a.ResourceType == metadata.ACLCluster && a.Name != metadata.ClusterResource:
		return refuse(ErrInvalidRequest, "The only valid name for the CLUSTER resource is %s",
			metadata.ClusterResource)
	case !ok || typ == "" || name == "":
		return refuse(ErrInvalidRequest, "Could not parse principal from `%s` (no colon is present "+
			"separating the principal type from the principal name)", a.Principal)
	case a.Host == "":
		return refuse(ErrInvalidRequest, "Host should not be empty")
	}
	return nil
}

// DeleteACLs removes access rules; those that are gone already are fine.
func (c *Controller) DeleteACLs(ctx context.Context, acls []metadata.ACL) error {
	var reply *storedError
	if err := c.do(ctx, &deleteACLs{acls}, &reply); err != nil {
		return err
	}
	return reply.err()
}

type deleteACLs struct{ acls []metadata.ACL }

func (c *deleteACLs) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	gone := make(map[metadata.ACL]bool)
	all := make(map[metadata.ACL]bool)
	for _, acl := range img.ACLs().All() {
		all[acl] = true
	}
	for _, acl := range c.acls {
		if all[acl] && !gone[acl] {
			gone[acl] = true
			records = append(records, &metadata.ACLRemovedRecord{ACL: acl})
		}
	}
	return records, (*storedError)(nil)
}

// ScramChange sets or removes a user's SCRAM credential.
type ScramChange struct {
	User      string
	Mechanism metadata.ScramMechanism
	Delete    bool
	// Salt, SaltedPassword and Iterations make the new credential.
	Salt, SaltedPassword []byte
	Iterations           int32
}

// Bounds of the iterations of a SCRAM credential, as in Kafka: fewer are too easy to guess, more
// make the client too slow.
const (
	minScramIterations = 4096
	maxScramIterations = 16384
)

// AlterScram changes SCRAM credentials, those of each user all or none. The errors are in the
// order of the changes, each nil or an *Error; a user's are all the same.
func (c *Controller) AlterScram(ctx context.Context, changes []ScramChange) ([]error, error) {
	cmd := &alterScram{}
	for _, change := range changes {
		cmd.changes = append(cmd.changes, hashed(change))
	}
	var replies []*storedError
	if err := c.do(ctx, cmd, &replies); err != nil {
		return nil, err
	}
	return storedErrors(replies), nil
}

// scramChange is a change with the keys made of the salted password, which is forgotten.
type scramChange struct {
	credential metadata.ScramCredential
	remove     bool
}

func hashed(change ScramChange) scramChange {
	c := scramChange{remove: change.Delete, credential: metadata.ScramCredential{
		User: change.User, Mechanism: change.Mechanism, Salt: change.Salt,
		Iterations: change.Iterations,
	}}
	digest := map[metadata.ScramMechanism]func() hash.Hash{
		metadata.ScramSHA256: sha256.New, metadata.ScramSHA512: sha512.New,
	}[change.Mechanism]
	if digest == nil || change.Delete {
		return c
	}
	mac := func(text string) []byte {
		m := hmac.New(digest, change.SaltedPassword)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := digest()
	stored.Write(mac("Client Key"))
	c.credential.StoredKey, c.credential.ServerKey = stored.Sum(nil), mac("Server Key")
	return c
}

type alterScram struct{ changes []scramChange }

func (c *alterScram) handle(img *metadata.Image) ([]metadata.Record, any) {
	refused := make(map[string]*Error) // by user, the first reason
	for i, change := range c.changes {
		user := change.credential.User
		if refused[user] != nil {
			continue
		}
		again := slices.ContainsFunc(c.changes[:i], func(o scramChange) bool {
			return o.credential.User == user && o.credential.Mechanism == change.credential.Mechanism
		})
		if again {
			refused[user] = refuse(ErrDuplicateResource,
				"A user credential cannot be altered twice in the same request")
		} else if why := checkScram(img, change); why != nil {
			refused[user] = why
		}
	}
	var records []metadata.Record
	replies := make([]*storedError, len(c.changes))
	for i, change := range c.changes {
		user := change.credential.User
		switch replies[i] = storeError(refused[user]); {
		case refused[user] != nil:
		case change.remove:
			records = append(records, &metadata.ScramRemovedRecord{
				User: user, Mechanism: change.credential.Mechanism})
		default:
			records = append(records, &metadata.ScramRecord{ScramCredential: change.credential})
		}
	}
	return records, replies
}

// checkScram is Kafka's check of a change, with its words.
func checkScram(img *metadata.Image, change scramChange) *Error {
	c := change.credential
	known := c.Mechanism == metadata.ScramSHA256 || c.Mechanism == metadata.ScramSHA512
	_, there := img.ScramCredential(c.User, c.Mechanism)
	switch {
	case c.User == "":
		return refuse(ErrUnacceptableCredential, "Username must not be empty")
	case !known:
		return refuse(ErrUnsupportedMechanism, "Unknown SCRAM mechanism")
	case change.remove && !there:
		return refuse(ErrResourceNotFound,
			"Attempt to delete a user credential that does not exist")
	case change.remove:
		return nil
	case c.Iterations < minScramIterations:
		return refuse(ErrUnacceptableCredential, "Too few iterations")
	case c.Iterations > maxScramIterations:
		return refuse(ErrUnacceptableCredential, "Too many iterations")
	case len(c.Salt) == 0:
		return refuse(ErrUnacceptableCredential, "The salt must not be empty")
	}
	return nil
}
