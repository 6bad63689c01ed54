package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// signatureAlgorithms are those that a token may be signed with: neither "none" nor one with a
// shared key, for which a public key could be taken.
var signatureAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// KeySet are the keys of an issuer (JWKS, RFC 7517).
type KeySet struct{ keys jose.JSONWebKeySet }

// ParseKeySet reads a JWKS document. One without keys is an error: it could check no token.
func ParseKeySet(document []byte) (*KeySet, error) {
	var set KeySet
	if err := json.Unmarshal(document, &set.keys); err != nil {
		return nil, fmt.Errorf("read a JWKS document: %w", err)
	}
	usable := set.keys.Keys[:0]
	for _, k := range set.keys.Keys {
		if k.Valid() && k.IsPublic() && k.Use != "enc" {
			usable = append(usable, k)
		}
	}
	if set.keys.Keys = usable; len(usable) == 0 {
		return nil, errors.New("read a JWKS document: it has no public key")
	}
	return &set, nil
}

// Has tells whether there is a key of that id.
func (s *KeySet) Has(id string) bool { return s != nil && len(s.keys.Key(id)) > 0 }

// TokenRules are what a bearer token must meet. All fields but Skew are required.
type TokenRules struct {
	// Keys returns the issuer's keys; it may read them anew if it has none of that id.
	Keys func(id string) (*KeySet, error)
	// Issuer is the "iss" that a token must have.
	Issuer string
	// Audience are those of which a token's "aud" must have one.
	Audience []string
	// NameClaim is the claim with the user's name.
	NameClaim string
	// Skew is by how much clocks may differ.
	Skew time.Duration
}

// Validate finds what is missing: without any of it every token of anybody would do.
func (r *TokenRules) Validate() error {
	var errs []error
	need := func(ok bool, name string) {
		if !ok {
			errs = append(errs, fmt.Errorf("OAUTHBEARER needs %s", name))
		}
	}
	need(r.Keys != nil, "sasl.oauthbearer.jwks.endpoint.url")
	need(r.Issuer != "", "sasl.oauthbearer.expected.issuer")
	need(len(r.Audience) > 0, "sasl.oauthbearer.expected.audience")
	need(r.NameClaim != "", "sasl.oauthbearer.sub.claim.name")
	return errors.Join(errs...)
}

// OAuth is SASL OAUTHBEARER (RFC 7628) with signed JWTs (KIP-255, KIP-768).
type OAuth struct {
	rules *TokenRules
	login Login
	// refused is set once a token was refused; the client then has one more message.
	refused bool
}

// NewOAuth begins a login.
func NewOAuth(rules *TokenRules) *OAuth { return &OAuth{rules: rules} }

var _ Exchange = (*OAuth)(nil)

// Login implements Exchange.
func (o *OAuth) Login() Login { return o.login }

// invalidToken is what a client is told whose token is not accepted.
const invalidToken = `{"status":"invalid_token"}`

// Step implements Exchange.
func (o *OAuth) Step(now time.Time, token []byte) ([]byte, bool, error) {
	if o.refused {
		return nil, false, ErrInvalidCredentials
	}
	if len(token) > maxTokenBytes {
		return nil, false, ErrBadToken
	}
	authorization, bearer, ok := parseBearer(string(token))
	if !ok {
		return nil, false, ErrBadToken
	}
	login, err := o.rules.check(now, bearer)
	if err != nil {
		o.refused = true
		return []byte(invalidToken), false, nil
	}
	if authorization != "" && authorization != login.User {
		return nil, false, ErrAuthorizationID
	}
	o.login = login
	return []byte{}, true, nil
}

// parseBearer takes the client's message apart:
//
//	n,a=authzid,^Aauth=Bearer token^Akey=value^A^A
func parseBearer(message string) (authorization, bearer string, ok bool) {
	head, rest, ok := strings.Cut(message, "\x01")
	if !ok || !strings.HasSuffix(rest, "\x01") {
		return "", "", false
	}
	parts := strings.Split(head, ",")
	if len(parts) != 3 || parts[0] != "n" || parts[2] != "" {
		return "", "", false
	}
	if parts[1] != "" {
		name, cut := strings.CutPrefix(parts[1], "a=")
		if authorization, ok = saslName(name); !cut || !ok {
			return "", "", false
		}
	}
	for pair := range strings.SplitSeq(rest, "\x01") {
		value, isAuth := strings.CutPrefix(pair, "auth=")
		if !isAuth {
			continue
		}
		scheme, token, cut := strings.Cut(value, " ")
		if !cut || !strings.EqualFold(scheme, "bearer") || bearer != "" {
			return "", "", false
		}
		bearer = strings.TrimSpace(token)
	}
	return authorization, bearer, bearer != ""
}

// check verifies a token and returns whose it is.
func (r *TokenRules) check(now time.Time, token string) (Login, error) {
	parsed, err := jwt.ParseSigned(token, signatureAlgorithms)
	if err != nil {
		return Login{}, fmt.Errorf("read the token: %w", err)
	}
	if len(parsed.Headers) != 1 {
		return Login{}, ErrInvalidCredentials
	}
	keys, err := r.Keys(parsed.Headers[0].KeyID)
	if err != nil {
		return Login{}, fmt.Errorf("get the issuer's keys: %w", err)
	}
	var claims jwt.Claims
	all := map[string]any{}
	if err := r.verify(parsed, keys, &claims, &all); err != nil {
		return Login{}, fmt.Errorf("verify the token: %w", err)
	}
	if claims.Expiry == nil {
		return Login{}, ErrInvalidCredentials
	}
	err = claims.ValidateWithLeeway(
		jwt.Expected{Issuer: r.Issuer, AnyAudience: r.Audience, Time: now}, r.Skew)
	if err != nil {
		return Login{}, fmt.Errorf("check the token: %w", err)
	}
	name, ok := all[r.NameClaim].(string)
	if !ok || name == "" {
		return Login{}, ErrInvalidCredentials
	}
	// For as long as the token would be taken again.
	return Login{User: name, Expires: claims.Expiry.Time().Add(r.Skew)}, nil
}

// verify checks the signature with the key that the token names, or, if it names none, with the
// only one there is.
func (r *TokenRules) verify(token *jwt.JSONWebToken, keys *KeySet, claims ...any) error {
	id := token.Headers[0].KeyID
	var candidates []jose.JSONWebKey
	if id == "" && len(keys.keys.Keys) == 1 {
		candidates = keys.keys.Keys
	} else {
		candidates = keys.keys.Key(id)
	}
	err := error(ErrInvalidCredentials)
	for _, key := range candidates {
		if key.Algorithm != "" && key.Algorithm != token.Headers[0].Algorithm {
			continue
		}
		if err = token.Claims(key.Key, claims...); err == nil {
			return nil
		}
	}
	return err
}
