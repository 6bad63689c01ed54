package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/millstream-io/millstream/cli/output"
)

// addLoginFlags adds how client commands reach a broker that asks who they are.
func addLoginFlags(flags *pflag.FlagSet) {
	flags.Bool("tls", false, "use TLS; given with any of --tls-ca, --tls-cert and --tls-key")
	flags.String("tls-ca", "", "PEM file of the authorities to trust, in the place of the system's")
	flags.String("tls-cert", "", "PEM file of the certificate to show (mTLS)")
	flags.String("tls-key", "", "PEM file of its key; the same file if it is left out")
	flags.String("sasl-mechanism", "",
		"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (default SCRAM-SHA-512 with --user)")
	flags.String("user", "", "user to log in as")
	flags.String("password", "",
		"password or token, as ${env:NAME} or ${file:PATH}; or set MILLSTREAM_PASSWORD")
}

// loginOptions are the TLS and SASL options of the settings.
func (a *app) loginOptions() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	mechanism, err := a.saslMechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// tlsConfig is nil without TLS.
func (a *app) tlsConfig() (*tls.Config, error) {
	ca, cert := a.settings.GetString("tls-ca"), a.settings.GetString("tls-cert")
	key := a.settings.GetString("tls-key")
	if !a.settings.GetBool("tls") && ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, cannotRead(ca, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, badLogin(ca + " has no PEM certificate")
		}
	}
	if cert == "" && key == "" {
		return config, nil
	}
	if cert == "" {
		return nil, badLogin("--tls-key needs --tls-cert")
	}
	if key == "" {
		key = cert
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, badLogin("cannot use the certificate in " + cert).WithCause(err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// saslMechanism is nil without a login.
func (a *app) saslMechanism() (sasl.Mechanism, error) {
	name, user := a.settings.GetString("sasl-mechanism"), a.settings.GetString("user")
	if name == "" && user == "" {
		return nil, nil
	}
	password, err := a.settings.password()
	if err != nil {
		return nil, err
	}
	switch strings.ToUpper(name) {
	case "OAUTHBEARER":
		return oauth.Auth{Token: password}.AsMechanism(), nil
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "":
	default:
		return nil, badLogin(fmt.Sprintf("there is no SASL mechanism %q", name)).
			WithDo("use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	}
	if user == "" {
		return nil, badLogin("--sasl-mechanism " + name + " needs --user")
	}
	switch strings.ToUpper(name) {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	}
	return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
}

// password resolves the setting of that name. As a flag it must be a reference: what stands in a
// command line can be read by every user of the machine.
func (s *settings) password() (string, error) {
	value := s.GetString("password")
	body, ok := strings.CutPrefix(value, "${")
	body, closed := strings.CutSuffix(body, "}")
	kind, name, colon := strings.Cut(body, ":")
	switch {
	case value == "":
		return "", badLogin("there is no password").
			WithDo("set MILLSTREAM_PASSWORD, or say --password '${file:PATH}'")
	case !ok && !s.passwordFlag:
		return value, nil // of a variable or a file
	case ok && closed && colon && kind == "env":
		if value = os.Getenv(name); value == "" {
			return "", badLogin("the variable " + name + " of the password is not set")
		}
		return value, nil
	case ok && closed && colon && kind == "file":
		text, err := os.ReadFile(name)
		if err != nil {
			return "", cannotRead(name, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	return "", badLogin("--password is not ${env:NAME} or ${file:PATH}").
		WithDo("other users of this machine can read command lines: set MILLSTREAM_PASSWORD instead")
}

func badLogin(what string) *output.Error { return output.Usage("BAD_LOGIN", what) }

// refusedLogin tells that a broker was there, and would not have this client; nil for other errors.
func refusedLogin(err error) *output.Error {
	var certificate *tls.CertificateVerificationError
	var first *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism),
		errors.Is(err, kerr.IllegalSaslState):
		return output.Failure("LOGIN_REFUSED", "the broker refused the login").WithCause(err).
			WithDo("look at --user, --password and --sasl-mechanism")
	case errors.As(err, &certificate):
		return output.Failure("LOGIN_REFUSED", "the broker's certificate is not trusted").WithCause(err).
			WithDo("name the authority that signed it with --tls-ca")
	case errors.As(err, &first):
		return output.Failure("LOGIN_REFUSED", "the broker closed the connection at once").
			WithCause(err).WithDo("if it uses TLS or asks for a login, say --tls or --user")
	}
	return nil
}
