package server

import (
	"crypto/tls"
	"time"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
)

// Listener says how the clients of one listener are taken. The zero value takes everybody as
// User:ANONYMOUS, without encryption.
type Listener struct {
	// Name is the listener's name; clients are told the addresses that belong to it.
	Name string
	// TLS encrypts the connections; nil does not.
	TLS *tls.Config
	// Names makes a user's name of that in a client's certificate.
	Names *auth.NameRules
	// SASL has the clients log in; nil does not.
	SASL *SASL
	// Trusted clients may do everything: they are in this process.
	Trusted bool
}

// SASL is how clients log in.
type SASL struct {
	// Mechanisms are those that are enabled, in the order told to clients.
	Mechanisms []string
	// Users are the passwords.
	Users auth.Users
	// Tokens are the rules of OAUTHBEARER.
	Tokens *auth.TokenRules
	// Reauthenticate is how long a login lasts, connections.max.reauth.ms. 0: for ever.
	Reauthenticate time.Duration
	// FailureDelay is how long a refused client waits for the answer,
	// connection.failed.authentication.delay.ms.
	FailureDelay time.Duration
	// RequestBytes bounds a request before the login. Default Limits.FirstRequestBytes, which is
	// also the most.
	RequestBytes int
	// Now is the clock that tokens and logins expire by. Default time.Now.
	Now func() time.Time
}

// withDefaults fills what is open.
func (l *Listener) withDefaults(limits *Limits) {
	if l.SASL == nil {
		return
	}
	if n := l.SASL.RequestBytes; n <= 0 || n > limits.FirstRequestBytes {
		l.SASL.RequestBytes = limits.FirstRequestBytes
	}
	if l.SASL.Now == nil {
		l.SASL.Now = time.Now
	}
}

// client is who sends the requests of a connection. The zero value may do nothing where access is
// controlled.
type client struct {
	auth.Identity
	// trusted may do everything.
	trusted bool
	// listener is the name of the listener that it came through.
	listener string
}

// plaintext is how Serve takes clients.
var plaintext = &Listener{Name: "PLAINTEXT"}

// may tells whether access is given, which it always is where access is not controlled. That it is
// not is logged.
func (s *Server) may(c *client, op metadata.ACLOperation, kind metadata.ACLResourceType,
	name string,
) bool {
	if s.sees(c, op, kind, name) {
		return true
	}
	s.denied(c, op, kind, name)
	return false
}

// sees is may for what is left out without a word, or for a second grant that would do as well.
func (s *Server) sees(c *client, op metadata.ACLOperation, kind metadata.ACLResourceType,
	name string,
) bool {
	if s.opts.Authorizer == nil || c.trusted {
		return true
	}
	return s.opts.Authorizer.Allowed(s.image().ACLs(), c.Identity, op, kind, name)
}

// visibleTo returns what tells the topics that the client may describe; nil for all.
func (s *Server) visibleTo(c *client) func(topic string) bool {
	if s.opts.Authorizer == nil || c.trusted {
		return nil
	}
	who := *c // the connection need not live as long
	return func(topic string) bool {
		return s.sees(&who, metadata.ACLDescribe, metadata.ACLTopic, topic)
	}
}

// mayAny tells whether access is given to any resource of a kind.
func (s *Server) mayAny(
	c *client, op metadata.ACLOperation, kind metadata.ACLResourceType,
) bool {
	if s.opts.Authorizer == nil || c.trusted {
		return true
	}
	return s.opts.Authorizer.AllowedOnAny(s.image().ACLs(), c.Identity, op, kind)
}

// mayCluster tells whether access is given to the cluster.
func (s *Server) mayCluster(c *client, op metadata.ACLOperation) bool {
	return s.may(c, op, metadata.ACLCluster, metadata.ClusterResource)
}

// seesCluster is sees for the cluster.
func (s *Server) seesCluster(c *client, op metadata.ACLOperation) bool {
	return s.sees(c, op, metadata.ACLCluster, metadata.ClusterResource)
}

// operations is what the client may do on a resource (KIP-430).
func (s *Server) operations(c *client, kind metadata.ACLResourceType, name string) int32 {
	authorizer := s.opts.Authorizer
	if c.trusted {
		authorizer = nil
	}
	return authorizer.Operations(s.image().ACLs(), c.Identity, kind, name)
}
