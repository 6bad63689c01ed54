package core_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// tokenIssuer writes its public key into a file and signs tokens.
type tokenIssuer struct {
	t    *testing.T
	file string
	id   string
	key  *ecdsa.PrivateKey
}

// renew makes a new key, of another id.
func (i *tokenIssuer) renew(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(i.t, err)
	i.id, i.key = id, key
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.PublicKey, KeyID: id, Algorithm: "ES256", Use: "sig"}}})
	require.NoError(i.t, err)
	require.NoError(i.t, os.WriteFile(i.file, set, 0o600))
}

func (i *tokenIssuer) token(issuer, audience, name string, expires time.Time) kgo.Opt {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key},
		(&jose.SignerOptions{}).WithHeader("kid", i.id))
	require.NoError(i.t, err)
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": issuer, "aud": audience,
		"name": name, "sub": "nobody", "exp": expires.Unix()}).Serialize()
	require.NoError(i.t, err)
	return kgo.SASL(oauth.Auth{Token: token}.AsMechanism())
}

func TestLoginWithTokens(t *testing.T) {
	i := &tokenIssuer{t: t, file: filepath.Join(t.TempDir(), "keys.json")}
	i.renew("k1")
	c, _ := securedBroker(t, newAuthority(t), func(config map[string]string) {
		config["sasl.enabled.mechanisms"] = "OAUTHBEARER"
		config["sasl.oauthbearer.jwks.endpoint.url"] = "file://" + i.file
		config["sasl.oauthbearer.jwks.endpoint.refresh.ms"] = "1000"
		config["sasl.oauthbearer.expected.issuer"] = "https://issuer"
		config["sasl.oauthbearer.expected.audience"] = "kafka,log"
		config["sasl.oauthbearer.sub.claim.name"] = "name"
		config["sasl.oauthbearer.clock.skew.seconds"] = "20"
	})
	later := time.Now().Add(time.Minute)
	login := func(issuer, audience, name string, expires time.Time) error {
		return ask(t, c, "CLIENT", i.token(issuer, audience, name, expires))
	}
	require.NoError(t, login("https://issuer", "log", "admin", later))
	require.ErrorIs(t, login("https://issuer", "log", "bob", later), os.ErrPermission)
	require.NoError(t, login("https://issuer", "log", "admin", time.Now().Add(-2*time.Second)),
		"within the skew")
	for name, err := range map[string]error{
		"issuer":   login("https://else", "log", "admin", later),
		"audience": login("https://issuer", "else", "admin", later),
		"expiry":   login("https://issuer", "log", "admin", time.Now().Add(-30*time.Second)),
	} {
		require.Error(t, err, name)
		require.NotErrorIs(t, err, os.ErrPermission, name)
	}
}
