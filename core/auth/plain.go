package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/core/metadata"
)

// Plain is SASL PLAIN (RFC 4616). The password is that of the settings or, for users that are not
// there, that of the SCRAM credentials.
type Plain struct {
	users Users
	user  string
}

// NewPlain begins a login.
func NewPlain(users Users) *Plain { return &Plain{users: users} }

var _ Exchange = (*Plain)(nil)

// Login implements Exchange.
func (p *Plain) Login() Login { return Login{User: p.user} }

// Step implements Exchange: one token, authorization id, user and password with NULs between.
func (p *Plain) Step(_ time.Time, token []byte) ([]byte, bool, error) {
	parts := bytes.Split(token, []byte{0})
	if len(token) > maxTokenBytes || len(parts) != 3 || !utf8.Valid(token) {
		return nil, false, ErrBadToken
	}
	authorization, user, password := string(parts[0]), string(parts[1]), parts[2]
	if user == "" || len(password) == 0 {
		return nil, false, ErrInvalidCredentials
	}
	if !p.right(user, password) {
		return nil, false, ErrInvalidCredentials
	}
	// Only now: to tell earlier would tell which users exist.
	if authorization != "" && authorization != user {
		return nil, false, ErrAuthorizationID
	}
	p.user = user
	return nil, true, nil
}

// right checks a password.
func (p *Plain) right(user string, password []byte) bool {
	// Hashes have one length, so that the comparison does not tell that of the password.
	given := sha256.Sum256(password)
	fixed, isFixed := p.users.Plain[user]
	wanted := sha256.Sum256([]byte(fixed))
	if same := subtle.ConstantTimeCompare(given[:], wanted[:]) == 1; same && isFixed {
		return true
	}
	// For a user of the settings, too: a wrong password takes as long whoever it is for.
	return p.users.rightScram(user, password) && !isFixed
}

// rightScram checks a password against the user's SCRAM credentials. A user without any costs as
// much time, see Users.unknown.
func (u *Users) rightScram(user string, password []byte) bool {
	c, known := u.Scram(user, metadata.ScramSHA256)
	if !known {
		c, known = u.Scram(user, metadata.ScramSHA512)
	}
	if !known {
		m := metadata.ScramSHA256
		if like, found := u.like(user, 0); found {
			m = like.Mechanism
		}
		c = u.unknown(user, m)
	}
	digest := digestOf(c.Mechanism)
	salted, err := pbkdf2.Key(digest, string(password), c.Salt, int(c.Iterations), digest().Size())
	if err != nil {
		return false
	}
	client := hmac.New(digest, salted)
	client.Write([]byte("Client Key"))
	stored := digest()
	stored.Write(client.Sum(nil))
	return subtle.ConstantTimeCompare(stored.Sum(nil), c.StoredKey) == 1 && known
}
