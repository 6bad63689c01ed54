package core

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/vfs"
)

// tlsCheckInterval is how often the files of certificates are looked at, at most.
const tlsCheckInterval = time.Second

// tlsSource gives a listener its certificates, and looks for new ones when clients connect.
type tlsSource struct {
	fs  vfs.FS
	log *slog.Logger
	// keystore and truststore are PEM files; "" where the text was given itself.
	keystore, truststore string
	// key, chain and authorities are PEM text, in the place of files.
	key, chain, authorities string
	clientAuth              tls.ClientAuthType
	minVersion, maxVersion  uint16

	mu struct {
		sync.Mutex
		current *tls.Config
		// stamp is the state of the files that current was read from.
		stamp string
		// checked is when the files were last looked at.
		checked time.Time
	}
}

// newTLSSource reads the certificates of a listener.
func newTLSSource(
	fs vfs.FS, image *metadata.Image, listener string, log *slog.Logger,
) (*tlsSource, error) {
	get := func(name string) string { return image.ListenerConfig(listener, name) }
	s := &tlsSource{
		fs: fs, log: log.With("listener", listener),
		keystore: get("ssl.keystore.location"), truststore: get("ssl.truststore.location"),
		key: get("ssl.keystore.key"), chain: get("ssl.keystore.certificate.chain"),
		authorities: get("ssl.truststore.certificates"),
		minVersion:  tls.VersionTLS12, maxVersion: tls.VersionTLS13,
	}
	versions := get("ssl.enabled.protocols")
	if !strings.Contains(versions, "TLSv1.2") {
		s.minVersion = tls.VersionTLS13
	}
	if !strings.Contains(versions, "TLSv1.3") {
		s.maxVersion = tls.VersionTLS12
	}
	switch get("ssl.client.auth") {
	case "required":
		s.clientAuth = tls.RequireAndVerifyClientCert
	case "requested":
		s.clientAuth = tls.VerifyClientCertIfGiven
	}
	if s.clientAuth != tls.NoClientCert && s.truststore == "" && s.authorities == "" {
		return nil, errors.New("ssl.client.auth needs ssl.truststore.location or " +
			"ssl.truststore.certificates: without authorities no certificate proves anything")
	}
	stamp, err := s.stamp()
	if err != nil {
		return nil, err
	}
	config, err := s.read()
	if err != nil {
		return nil, err
	}
	s.mu.current, s.mu.stamp = config, stamp
	return s, nil
}

// config is what listens: it asks for the newest certificates with every connection.
func (s *tlsSource) config() *tls.Config {
	return &tls.Config{
		MinVersion:         s.minVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.newest(), nil },
	}
}

// newest returns the configuration of the files as they are now. One that cannot be read keeps the
// last good one.
func (s *tlsSource) newest() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.mu.checked) < tlsCheckInterval {
		return s.mu.current
	}
	s.mu.checked = time.Now()
	stamp, err := s.stamp()
	if err == nil && stamp == s.mu.stamp {
		return s.mu.current
	}
	var config *tls.Config
	if err == nil {
		config, err = s.read()
	}
	if err != nil {
		s.log.Error("cannot read the certificates anew; the old ones stay", "error", err.Error())
		return s.mu.current
	}
	s.mu.current, s.mu.stamp = config, stamp
	s.log.Info("certificates were read anew")
	return config
}

// stamp is a text that changes with the files.
func (s *tlsSource) stamp() (string, error) {
	var text strings.Builder
	for _, name := range []string{s.keystore, s.truststore} {
		if name == "" {
			continue
		}
		info, err := s.fs.Stat(name)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", name, err)
		}
		fmt.Fprintf(&text, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return text.String(), nil
}

// read makes a configuration of the files.
func (s *tlsSource) read() (*tls.Config, error) {
	key, chain := []byte(s.key), []byte(s.chain)
	if s.keystore != "" {
		both, err := vfs.ReadFile(s.fs, s.keystore)
		if err != nil {
			return nil, fmt.Errorf("read ssl.keystore.location: %w", err)
		}
		key, chain = both, both
	}
	if len(key) == 0 || len(chain) == 0 {
		return nil, errors.New("TLS needs ssl.keystore.location, or ssl.keystore.key and " +
			"ssl.keystore.certificate.chain")
	}
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("read the PEM key store: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: s.clientAuth,
		MinVersion: s.minVersion, MaxVersion: s.maxVersion,
	}
	if s.clientAuth == tls.NoClientCert {
		return config, nil
	}
	authorities := []byte(s.authorities)
	if s.truststore != "" {
		if authorities, err = vfs.ReadFile(s.fs, s.truststore); err != nil {
			return nil, fmt.Errorf("read ssl.truststore.location: %w", err)
		}
	}
	config.ClientCAs, err = readAuthorities(authorities)
	return config, err
}

// readAuthorities reads PEM certificates; one that is bad is an error, not left out.
func readAuthorities(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	n := 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the PEM trust store: %w", err)
		}
		pool.AddCert(certificate)
		n++
	}
	if n == 0 || len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("read the PEM trust store: it is not a list of certificates")
	}
	return pool, nil
}
