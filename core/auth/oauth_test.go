package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/auth"
)

var now = time.Unix(1_700_000_000, 0)

// issuer signs tokens.
type issuer struct {
	key   *ecdsa.PrivateKey
	rules *auth.TokenRules
}

func newIssuer(t testing.TB) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	document, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	require.NoError(t, err)
	keys, err := auth.ParseKeySet(document)
	require.NoError(t, err)
	return &issuer{key: key, rules: &auth.TokenRules{
		Keys: func(string) (*auth.KeySet, error) { return keys, nil }, Issuer: "https://issuer",
		Audience: []string{"kafka", "other"}, NameClaim: "sub", Skew: 30 * time.Second,
	}}
}

// claims are those of a token that is accepted.
func claims() map[string]any {
	return map[string]any{"iss": "https://issuer", "aud": []string{"kafka"}, "sub": "alice",
		"exp": now.Add(time.Minute).Unix()}
}

func (i *issuer) sign(t testing.TB, alg jose.SignatureAlgorithm, key any, id string, c any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", id))
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	require.NoError(t, err)
	return token
}

func (i *issuer) login(token string) (*auth.OAuth, bool, error) {
	o := auth.NewOAuth(i.rules)
	_, done, err := o.Step(now, []byte("n,,\x01auth=Bearer "+token+"\x01\x01"))
	return o, done, err
}

// TestOAuthKeyIsForItsAlgorithm: a key that the issuer gave out for one algorithm is not taken for
// another that could use it.
func TestOAuthKeyIsForItsAlgorithm(t *testing.T) {
	i := newIssuer(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	document, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.PublicKey, KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	require.NoError(t, err)
	keys, err := auth.ParseKeySet(document)
	require.NoError(t, err)
	i.rules.Keys = func(string) (*auth.KeySet, error) { return keys, nil }
	for alg, want := range map[jose.SignatureAlgorithm]bool{jose.RS256: true, jose.PS256: false,
		jose.RS512: false} {
		_, done, err := i.login(i.sign(t, alg, key, "k1", claims()))
		require.NoError(t, err)
		require.Equal(t, want, done, alg)
	}
}

func TestOAuthTakesAGoodToken(t *testing.T) {
	i := newIssuer(t)
	o, done, err := i.login(i.sign(t, jose.ES256, i.key, "k1", claims()))
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, auth.Login{User: "alice", Expires: now.Add(90 * time.Second)}, auth.Login{
		User: o.Login().User, Expires: o.Login().Expires.Local()})
}

// CVE-2026-33557 and its kind: a token must be signed by the issuer, for us, and not be over.
func TestOAuthRefusesOtherTokens(t *testing.T) {
	i := newIssuer(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	without := func(name string, value any) map[string]any {
		c := claims()
		if delete(c, name); value != nil {
			c[name] = value
		}
		return c
	}
	sign := func(c any) string { return i.sign(t, jose.ES256, i.key, "k1", c) }
	body, err := json.Marshal(claims())
	require.NoError(t, err)
	text := base64.RawURLEncoding.EncodeToString
	for name, token := range map[string]string{
		"unsigned":        text([]byte(`{"alg":"none"}`)) + "." + text(body) + ".",
		"of another key":  i.sign(t, jose.ES256, other, "k1", claims()),
		"of another id":   i.sign(t, jose.ES256, i.key, "k2", claims()),
		"a shared key":    i.sign(t, jose.HS256, make([]byte, 32), "k1", claims()),
		"another issuer":  sign(without("iss", "https://else")),
		"no issuer":       sign(without("iss", nil)),
		"another service": sign(without("aud", "else")),
		"no service":      sign(without("aud", nil)),
		"over":            sign(without("exp", now.Add(-time.Minute).Unix())),
		"never over":      sign(without("exp", nil)),
		"not yet":         sign(without("nbf", now.Add(time.Hour).Unix())),
		"no name":         sign(without("sub", nil)),
		"no text":         "x.y.z",
	} {
		o, done, err := i.login(token)
		require.NoError(t, err, name)
		require.False(t, done, name)
		_, done, err = o.Step(now, []byte{1})
		require.ErrorIs(t, err, auth.ErrInvalidCredentials, name)
		require.False(t, done, name)
	}
}

func TestOAuthRulesAreAllNeeded(t *testing.T) {
	require.NoError(t, newIssuer(t).rules.Validate())
	for name, change := range map[string]func(*auth.TokenRules){
		"jwks":     func(r *auth.TokenRules) { r.Keys = nil },
		"issuer":   func(r *auth.TokenRules) { r.Issuer = "" },
		"audience": func(r *auth.TokenRules) { r.Audience = nil },
	} {
		rules := newIssuer(t).rules
		change(rules)
		require.ErrorContains(t, rules.Validate(), name)
	}
	_, err := auth.ParseKeySet([]byte(`{"keys":[]}`))
	require.Error(t, err)
	_, err = auth.ParseKeySet([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`))
	require.Error(t, err, "a shared key is no public key")
}

func TestOAuthActsForNobodyElse(t *testing.T) {
	i := newIssuer(t)
	token := i.sign(t, jose.ES256, i.key, "k1", claims())
	for header, want := range map[string]error{
		"n,a=alice,": nil, "n,a=bob,": auth.ErrAuthorizationID, "y,,": auth.ErrBadToken,
		"n,": auth.ErrBadToken, "n,b=alice,": auth.ErrBadToken,
	} {
		_, _, err := auth.NewOAuth(i.rules).Step(now, []byte(header+"\x01auth=Bearer "+token+"\x01\x01"))
		require.ErrorIs(t, err, want, header)
	}
}
