package auth

import (
	"time"

	"github.com/millstream-io/millstream/core/metadata"
)

// Exchange is one login by a SASL mechanism, from the side of the broker.
type Exchange interface {
	// Step takes the next token of the client. Done tells that it has logged in; the answer is
	// then the last one. The error is one of this package, after which the exchange is over.
	Step(now time.Time, token []byte) (answer []byte, done bool, err error)
	// Login returns who logged in; it may be asked after Step was done.
	Login() Login
}

// Login is the outcome of an Exchange.
type Login struct {
	// User is the name.
	User string
	// Expires is when what proved it is no longer valid; zero for never.
	Expires time.Time
}

// Users is what passwords are checked against.
type Users struct {
	// Scram finds the credential of a user.
	Scram func(user string, m metadata.ScramMechanism) (metadata.ScramCredential, bool)
	// Plain are passwords that were given with the settings, by user.
	Plain map[string]string
	// Scrams returns the credentials of all users, in an order that stays: what is made up for a
	// user that does not exist looks like one of them. Nil: like those of kafka-configs.
	Scrams func() []metadata.ScramCredential
	// Secret makes up the salts of users that do not exist: the same for the same name, for as
	// long as the broker runs, and nothing that can be foreseen.
	Secret []byte
}

// maxTokenBytes bounds a token: longer ones are no login.
const maxTokenBytes = 64 << 10
