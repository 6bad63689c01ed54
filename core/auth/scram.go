package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/core/metadata"
)

// Scram is SCRAM-SHA-256 or SCRAM-SHA-512 (RFC 5802, RFC 7677) without channel binding.
//
//	client  n,,n=user,r=cnonce
//	server  r=cnonce+snonce,s=salt,i=iterations
//	client  c=biws,r=cnonce+snonce,p=proof
//	server  v=signature
type Scram struct {
	users     Users
	mechanism metadata.ScramMechanism
	// nonce is this side's part of the nonce.
	nonce string
	// step counts the tokens taken.
	step int

	user       string
	credential metadata.ScramCredential
	// known tells that the user exists; otherwise the credential is made up.
	known bool
	// header is the client's GS2 header, which it must repeat.
	header string
	// bothNonces is what the client must send back.
	bothNonces string
	// first and challenge are the two messages that the proof is about, beside the last.
	first, challenge string
}

// NewScram begins a login; nonce is fresh random text without commas.
func NewScram(users Users, m metadata.ScramMechanism, nonce string) *Scram {
	return &Scram{users: users, mechanism: m, nonce: nonce}
}

var _ Exchange = (*Scram)(nil)

// Login implements Exchange.
func (s *Scram) Login() Login { return Login{User: s.user} }

// Step implements Exchange.
func (s *Scram) Step(_ time.Time, token []byte) ([]byte, bool, error) {
	if len(token) > maxTokenBytes || !utf8.Valid(token) {
		return nil, false, ErrBadToken
	}
	s.step++
	switch s.step {
	case 1:
		answer, err := s.begin(string(token))
		return answer, false, err
	case 2:
		answer, err := s.finish(string(token))
		return answer, err == nil, err
	}
	return nil, false, ErrBadToken
}

// begin answers the client-first-message.
func (s *Scram) begin(message string) ([]byte, error) {
	flag, rest, ok := strings.Cut(message, ",")
	if !ok || flag != "n" && flag != "y" { // p=... asks for a channel binding
		return nil, ErrBadToken
	}
	authorization, bare, ok := strings.Cut(rest, ",")
	if !ok || authorization != "" && !strings.HasPrefix(authorization, "a=") {
		return nil, ErrBadToken
	}
	parts := strings.Split(bare, ",")
	if len(parts) < 2 || !strings.HasPrefix(parts[0], "n=") || !strings.HasPrefix(parts[1], "r=") {
		return nil, ErrBadToken // or m=..., a mandatory extension, of which there is none
	}
	user, ok := saslName(parts[0][2:])
	nonce := parts[1][2:]
	if !ok || user == "" || !printable(nonce) {
		return nil, ErrBadToken
	}
	for _, extension := range parts[2:] {
		// A delegation token is no password; whoever has one must not be taken for a user.
		if strings.HasPrefix(extension, "tokenauth=") {
			return nil, ErrInvalidCredentials
		}
	}
	if authorization != "" {
		if name, ok := saslName(authorization[2:]); !ok || name != user {
			return nil, ErrAuthorizationID
		}
	}
	s.user, s.header, s.first = user, flag+","+authorization+",", bare
	s.bothNonces = nonce + s.nonce
	if s.credential, s.known = s.users.Scram(user, s.mechanism); !s.known {
		s.credential = s.users.unknown(user, s.mechanism)
	}
	s.challenge = "r=" + s.bothNonces + ",s=" + base64.StdEncoding.EncodeToString(s.credential.Salt) +
		",i=" + strconv.Itoa(int(s.credential.Iterations))
	return []byte(s.challenge), nil
}

// finish checks the client-final-message.
func (s *Scram) finish(message string) ([]byte, error) {
	at := strings.LastIndex(message, ",p=")
	if at < 0 {
		return nil, ErrBadToken
	}
	withoutProof := message[:at]
	proof, err := base64.StdEncoding.DecodeString(message[at+3:])
	parts := strings.Split(withoutProof, ",")
	if err != nil || len(parts) < 2 || !strings.HasPrefix(parts[0], "c=") ||
		!strings.HasPrefix(parts[1], "r=") {
		return nil, ErrBadToken
	}
	header, err := base64.StdEncoding.DecodeString(parts[0][2:])
	if err != nil || string(header) != s.header {
		return nil, ErrBadToken
	}
	if subtle.ConstantTimeCompare([]byte(parts[1][2:]), []byte(s.bothNonces)) != 1 {
		return nil, ErrInvalidCredentials
	}
	about := []byte(s.first + "," + s.challenge + "," + withoutProof)
	digest := digestOf(s.mechanism)
	signature := sign(digest, s.credential.StoredKey, about)
	if len(proof) != len(signature) {
		return nil, ErrInvalidCredentials
	}
	clientKey := make([]byte, len(proof))
	subtle.XORBytes(clientKey, proof, signature)
	stored := digest()
	stored.Write(clientKey)
	right := subtle.ConstantTimeCompare(stored.Sum(nil), s.credential.StoredKey) == 1
	answer := sign(digest, s.credential.ServerKey, about)
	if !right || !s.known {
		return nil, ErrInvalidCredentials
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(answer)), nil
}

func sign(digest func() hash.Hash, key, message []byte) []byte {
	m := hmac.New(digest, key)
	m.Write(message)
	return m.Sum(nil)
}

func digestOf(m metadata.ScramMechanism) func() hash.Hash {
	if m == metadata.ScramSHA512 {
		return sha512.New
	}
	return sha256.New
}

// What kafka-configs gives to a user, and so what one is expected to have.
const (
	unknownIterations = 4096
	unknownSalt       = 26 // characters of 0-9 and a-z
)

// unknown is the credential of a user that does not exist; no password fits it. Iterations and the
// look of the salt are those of a user that exists, or they would tell.
func (u *Users) unknown(user string, m metadata.ScramMechanism) metadata.ScramCredential {
	like, found := u.like(user, m)
	if !found {
		like.Iterations, like.Salt = unknownIterations, bytes.Repeat([]byte{'0'}, unknownSalt)
	}
	text := !slices.ContainsFunc(like.Salt, func(c byte) bool {
		return strings.IndexByte(base36, c) < 0
	})
	salt := make([]byte, 0, len(like.Salt)+sha256.Size)
	for block := []byte(user); len(salt) < len(like.Salt); {
		block = sign(sha256.New, u.Secret, append([]byte("salt"), block...))
		salt = append(salt, block...)
	}
	salt = salt[:len(like.Salt)]
	for i := range salt {
		if text {
			salt[i] = base36[int(salt[i])%len(base36)]
		}
	}
	size := digestOf(m)().Size()
	return metadata.ScramCredential{
		User: user, Mechanism: m, Salt: salt, Iterations: like.Iterations,
		StoredKey: make([]byte, size), ServerKey: make([]byte, size),
	}
}

const base36 = "0123456789abcdefghijklmnopqrstuvwxyz"

// like chooses a credential of the mechanism, 0 for any, the same one for the same name.
func (u *Users) like(user string, m metadata.ScramMechanism) (metadata.ScramCredential, bool) {
	if u.Scrams == nil {
		return metadata.ScramCredential{}, false
	}
	all := u.Scrams()
	if len(all) == 0 {
		return metadata.ScramCredential{}, false
	}
	number := binary.BigEndian.Uint64(sign(sha256.New, u.Secret, []byte("like"+user)))
	from := int(number % uint64(len(all)))
	for i := range all {
		if c := all[(from+i)%len(all)]; c.Mechanism == m || m == 0 {
			return c, true
		}
	}
	return metadata.ScramCredential{}, false
}

// saslName takes =2C and =3D out of a name, which are the only escapes that there are.
func saslName(s string) (string, bool) {
	var b strings.Builder
	for s != "" {
		before, after, escaped := strings.Cut(s, "=")
		b.WriteString(before)
		if s = after; !escaped {
			break
		}
		switch {
		case strings.HasPrefix(after, "2C"):
			b.WriteByte(',')
		case strings.HasPrefix(after, "3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		s = after[2:]
	}
	return b.String(), true
}

// printable tells whether s can be a nonce: printable ASCII, no comma.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e || s[i] == ',' {
			return false
		}
	}
	return s != ""
}
