package core_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/vnet"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	n    int64
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{t: t, cert: cert, key: key, n: 1,
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a key and its certificate as PEM.
func (a *authority) issue(name pkix.Name) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	a.n++
	template := &x509.Certificate{SerialNumber: big.NewInt(a.n), Subject: name,
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

// client is the TLS configuration of a client; key is its PEM, nil for none.
func (a *authority) client(key []byte) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	c := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	if key != nil {
		pair, err := tls.X509KeyPair(key, key)
		require.NoError(a.t, err)
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// securedBroker has a listener of each protocol, and access control.
func securedBroker(t *testing.T, a *authority, change func(config map[string]string)) (
	c *coretest.Cluster, keystore string,
) {
	dir := t.TempDir()
	keystore, truststore := filepath.Join(dir, "server.pem"), filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(keystore, a.issue(pkix.Name{CommonName: "server"}), 0o600))
	require.NoError(t, os.WriteFile(truststore, a.pem, 0o600))
	const jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	config := map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0," +
			"CLIENT://127.0.0.1:0",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL," +
			"CLIENT:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms":                       "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"authorizer.class.name":                         metadata.StandardAuthorizer,
		"super.users":                                   "User:admin;User:certain",
		"ssl.keystore.location":                         keystore,
		"ssl.truststore.location":                       truststore,
		"listener.name.ssl.ssl.client.auth":             "required",
		"ssl.principal.mapping.rules":                   "RULE:^CN=([a-z]+),O=Example$/$1/",
		"listener.name.client.plain.sasl.jaas.config":   jaas + `user_admin="secret word";`,
		"listener.name.sasl_ssl.plain.sasl.jaas.config": jaas + `user_admin="s";`,
	}
	if change != nil {
		change(config)
	}
	return coretest.Start(t, coretest.Options{Config: config, OS: true}), keystore
}

// ask makes a request that only a client with access to the cluster may make.
func ask(t *testing.T, c *coretest.Cluster, listener string, opts ...kgo.Opt) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(append(opts, kgo.RequestRetries(0),
		kgo.SeedBrokers(c.Broker().ListenerAddr(listener)))...)
	require.NoError(t, err)
	defer client.Close()
	resp, err := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest().RequestWith(ctx, client)
	if err == nil && resp.ErrorCode != 0 {
		return os.ErrPermission
	}
	return err
}

func TestEachListenerHasItsProtocol(t *testing.T) {
	a := newAuthority(t)
	c, _ := securedBroker(t, a, nil)
	upsert(t, c, "admin", "pencil")
	anonymous := a.client(nil)
	login := kgo.SASL(plain.Auth{User: "admin", Pass: "secret word"}.AsMechanism())
	require.NoError(t, ask(t, c, "CLIENT", login))
	require.Error(t, ask(t, c, "CLIENT"), "without a login")
	require.Error(t, ask(t, c, "SASL_SSL", login, kgo.DialTLSConfig(anonymous)),
		"the password of another listener")
	for _, m := range []kgo.Opt{
		kgo.SASL(plain.Auth{User: "admin", Pass: "s"}.AsMechanism()),
		kgo.SASL(scram.Auth{User: "admin", Pass: "pencil"}.AsSha256Mechanism()),
		kgo.SASL(scram.Auth{User: "admin", Pass: "pencil"}.AsSha512Mechanism()),
	} {
		require.NoError(t, ask(t, c, "SASL_SSL", m, kgo.DialTLSConfig(anonymous)))
		require.Error(t, ask(t, c, "SASL_SSL", m), "without TLS")
	}
	require.Error(t, ask(t, c, "SASL_SSL", kgo.DialTLSConfig(anonymous),
		kgo.SASL(scram.Auth{User: "admin", Pass: "pen"}.AsSha256Mechanism())))
	require.ErrorIs(t, ask(t, c, "PLAINTEXT"), os.ErrPermission)

	certain := a.issue(pkix.Name{CommonName: "certain", Organization: []string{"Example"}})
	require.NoError(t, ask(t, c, "SSL", kgo.DialTLSConfig(a.client(certain))))
	other := a.issue(pkix.Name{CommonName: "bob", Organization: []string{"Example"}})
	require.ErrorIs(t, ask(t, c, "SSL", kgo.DialTLSConfig(a.client(other))), os.ErrPermission)
	name := pkix.Name{CommonName: "certain", Organization: []string{"Example"}}
	foreign := newAuthority(t).issue(name)
	require.Error(t, ask(t, c, "SSL", kgo.DialTLSConfig(a.client(foreign))), "of another authority")
	unmapped := a.issue(pkix.Name{CommonName: "certain", Organization: []string{"Example", "More"}})
	err := ask(t, c, "SSL", kgo.DialTLSConfig(a.client(unmapped)))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrPermission, "a name that no rule maps does not even get in")
	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		old := a.client(nil)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, version
		conn, err := tls.Dial("tcp", c.Broker().ListenerAddr("SASL_SSL"), old)
		require.Equal(t, works, err == nil, "%x: %v", version, err)
		if err == nil {
			require.NoError(t, conn.Close())
		}
	}
	require.Error(t, ask(t, c, "SSL", kgo.DialTLSConfig(anonymous)), "without a certificate")

	require.NoError(t, pipeRequest(t, c), "a client in this process may do everything")
}

// upsert gives a user SCRAM credentials, through the pipe of this process.
func upsert(t *testing.T, c *coretest.Cluster, user, password string) {
	t.Helper()
	client := pipeClient(t, c)
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for mechanism, hash := range map[int8]func([]byte) []byte{1: salted256(password),
		2: salted512(password)} {
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt = user, mechanism, 4096, []byte("salt")
		u.SaltedPassword = hash(u.Salt)
		req.Upsertions = append(req.Upsertions, u)
	}
	resp, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, resp.Results[0].ErrorCode)
}

func pipeClient(t *testing.T, c *coretest.Cluster) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers("broker:9092"),
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.Broker().Dial(ctx)
		}))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func pipeRequest(t *testing.T, c *coretest.Cluster) error {
	resp, err := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest().RequestWith(t.Context(),
		pipeClient(t, c))
	if err == nil && resp.ErrorCode != 0 {
		return os.ErrPermission
	}
	return err
}

// A certificate that is replaced is used by the next connection; a broken one is not.
func TestCertificatesAreReadAnew(t *testing.T) {
	a := newAuthority(t)
	c, keystore := securedBroker(t, a, nil)
	serial := func() string {
		conn, err := tls.Dial("tcp", c.Broker().ListenerAddr("SASL_SSL"), a.client(nil))
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	require.NoError(t, os.WriteFile(keystore, []byte("garbage"), 0o600))
	require.Eventually(t, func() bool {
		require.Equal(t, first, serial())
		return bytes.Contains([]byte(c.Log()), []byte("cannot read the certificates anew"))
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(keystore, a.issue(pkix.Name{CommonName: "new"}), 0o600))
	require.Eventually(t, func() bool { return serial() != first }, time.Minute,
		50*time.Millisecond)
}

// S8: whoever can be reached from elsewhere asks who is there.
func TestStartRefusesToServeEverybody(t *testing.T) {
	open := func(o core.Options) error {
		o.DataDir, o.Net = t.TempDir(), vnet.TCP()
		b, err := core.Open(t.Context(), o)
		if err == nil {
			require.NoError(t, b.Close(t.Context()))
		}
		return err
	}
	loopback := "127.0.0.1:0"
	for name, o := range map[string]core.Options{
		"listener": {Listen: "0.0.0.0:0", AdvertisedHost: "h"},
		"http":     {Listen: loopback, HTTPListen: "0.0.0.0:0"},
		"one of several": {Config: map[string]string{
			"listeners":            "PLAINTEXT://127.0.0.1:0,OUT://0.0.0.0:0",
			"advertised.listeners": "OUT://h:1", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT," +
				"OUT:PLAINTEXT"}},
	} {
		require.ErrorIs(t, open(o), core.ErrNoAuthentication, name)
		o.Insecure = true
		require.NoError(t, open(o), name)
	}
	require.NoError(t, open(core.Options{Config: map[string]string{
		"listeners": "SASL_PLAINTEXT://0.0.0.0:0", "advertised.listeners": "SASL_PLAINTEXT://h:1",
		"sasl.enabled.mechanisms": "SCRAM-SHA-256"}}))
}

// What is missing or wrong ends the start, with its name.
func TestStartRefusesBadListeners(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]string
		want   string
	}{
		"no protocol":  {map[string]string{"listeners": "X://127.0.0.1:0"}, "listener X"},
		"no name":      {map[string]string{"listeners": "127.0.0.1:0"}, "NAME://host:port"},
		"twice":        {map[string]string{"listeners": "SSL://127.0.0.1:0,ssl://127.0.0.1:0"}, "SSL"},
		"no key":       {map[string]string{"listeners": "SSL://127.0.0.1:0"}, "ssl.keystore.location"},
		"no mechanism": {map[string]string{"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, "mechanisms"},
		"unknown advertised": {map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0",
			"advertised.listeners": "Y://h:1"}, "no listener Y"},
		"no authorities": {map[string]string{"listeners": "SSL://127.0.0.1:0",
			"ssl.client.auth": "required"}, "ssl.truststore"},
		"no JWKS": {map[string]string{"listeners": "SASL_PLAINTEXT://127.0.0.1:0",
			"sasl.enabled.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url"},
		"JWKS over http": {map[string]string{"listeners": "SASL_PLAINTEXT://127.0.0.1:0",
			"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.expected.issuer": "i",
			"sasl.oauthbearer.expected.audience": "a",
			"sasl.oauthbearer.jwks.endpoint.url": "http://example.com/keys"}, "https"},
		"jaas for all": {map[string]string{"sasl.jaas.config": "x"}, "listener.name."},
		"super users": {map[string]string{"super.users": "admin",
			"authorizer.class.name": metadata.StandardAuthorizer}, "super.users"},
	} {
		_, err := core.Open(t.Context(), core.Options{DataDir: t.TempDir(), Config: c.config,
			Listen: "127.0.0.1:0"})
		require.ErrorContains(t, err, c.want, name)
	}
}

// The keys and certificates may be settings, in the place of files; they are never shown.
func TestKeysMayBeInTheSettings(t *testing.T) {
	a := newAuthority(t)
	pemText := string(a.issue(pkix.Name{CommonName: "server"}))
	c, _ := securedBroker(t, a, func(config map[string]string) {
		delete(config, "ssl.keystore.location")
		delete(config, "ssl.truststore.location")
		config["ssl.keystore.key"], config["ssl.keystore.certificate.chain"] = pemText, pemText
		config["ssl.truststore.certificates"] = string(a.pem)
		config["ssl.enabled.protocols"] = "TLSv1.3"
	})
	certain := a.issue(pkix.Name{CommonName: "certain", Organization: []string{"Example"}})
	require.NoError(t, ask(t, c, "SSL", kgo.DialTLSConfig(a.client(certain))))
	old := a.client(certain)
	old.MaxVersion = tls.VersionTLS12
	require.Error(t, ask(t, c, "SSL", kgo.DialTLSConfig(old)))

	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	req.Resources, req.IncludeSynonyms = append(req.Resources, r), true
	resp, err := req.RequestWith(t.Context(), pipeClient(t, c))
	require.NoError(t, err)
	require.NotEmpty(t, resp.Resources[0].Configs)
	shown, err := json.Marshal(resp)
	require.NoError(t, err)
	for _, secret := range []string{"PRIVATE KEY", "BEGIN CERTIFICATE", "secret word", "user_admin"} {
		require.NotContains(t, string(shown), secret)
		require.NotContains(t, c.Log(), secret)
	}
}
