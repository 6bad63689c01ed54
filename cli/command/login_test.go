package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core"
)

// selfSigned writes a key and a certificate that is its own authority.
func selfSigned(t *testing.T, name string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), name+".pem")
	require.NoError(t, os.WriteFile(file, append(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), 0o600))
	return file
}

// Commands log in with TLS, a client certificate, or a password that is in no command line.
func TestCommandsLogIn(t *testing.T) {
	server, client := selfSigned(t, "server"), selfSigned(t, "client")
	b, err := core.Open(t.Context(), core.Options{DataDir: t.TempDir(), Config: map[string]string{
		"listeners":                         "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
		"sasl.enabled.mechanisms":           "PLAIN",
		"ssl.keystore.location":             server,
		"ssl.truststore.location":           client,
		"listener.name.ssl.ssl.client.auth": "required",
		"listener.name.sasl_ssl.plain.sasl.jaas.config": "org.apache.kafka.common.security." +
			`plain.PlainLoginModule required user_ann="pass word";`,
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(t.Context())) }()
	at := []string{"topic", "ls", "--bootstrap", b.ListenerAddr("SASL_SSL")}
	login := append(at, "--tls-ca", server, "--user", "ann", "--sasl-mechanism", "plain")

	t.Setenv("ANNS_PASSWORD", "pass word")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("pass word\n"), 0o600))
	for _, reference := range []string{"${env:ANNS_PASSWORD}", "${file:" + file + "}"} {
		got := run(t, append(login, "--password", reference)...)
		require.Zero(t, got.exit, got.err)
	}
	got := run(t, append(login, "--password", "pass word")...)
	require.Contains(t, got.err, "BAD_LOGIN", "a password in a command line")
	require.NotContains(t, got.err, "pass word")
	got = run(t, login...)
	require.Contains(t, got.err, "BAD_LOGIN", "no password")
	got = run(t, append(at, "--tls-ca", client)...)
	require.Contains(t, got.err, "--tls-ca", "not its authority")
	got = run(t, at...)
	require.Contains(t, got.err, "LOGIN_REFUSED")

	t.Setenv("MILLSTREAM_PASSWORD", "pass word")
	got = run(t, login...)
	require.Zero(t, got.exit, got.err)
	t.Setenv("MILLSTREAM_PASSWORD", "wrong")
	got = run(t, login...)
	require.Contains(t, got.err, "LOGIN_REFUSED")

	mutual := []string{"topic", "ls", "--bootstrap", b.ListenerAddr("SSL"), "--tls-ca", server}
	got = run(t, append(mutual, "--tls-cert", client)...)
	require.Zero(t, got.exit, got.err)
	got = run(t, mutual...)
	require.NotZero(t, got.exit, "without a certificate")
}
