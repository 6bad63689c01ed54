package server

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
)

// Errors that end a connection because of its login.
var (
	errLogin        = errors.New("login failed")
	errLoginTimeout = errors.New("no login in time")
	errNotLoggedIn  = errors.New("request before the login")
	errExpired      = errors.New("the login has expired")
	errNoIdentity   = errors.New("no mapping rule matches the name in the certificate")
)

// login is the SASL state of one connection. It belongs to the connection's reader.
//
//	ApiVersions* SaslHandshake ( SaslAuthenticate+ | raw tokens, version 0 ) requests...
//
// The same, but for the raw tokens, may come again later (KIP-368).
type login struct {
	sasl *SASL
	// exchange is the mechanism at work; nil outside of a login.
	exchange auth.Exchange
	// mechanism is its name, or that of the last login.
	mechanism string
	// raw tells that tokens come without a header.
	raw bool
	// done tells that the client has logged in.
	done bool
	// expires is when it has to log in again; zero for never.
	expires time.Time
	// last is when it logged in.
	last time.Time
	// asked is when the last token came.
	asked time.Time
}

// minReauthInterval is how long a login is not repeated; Kafka's is as long.
const minReauthInterval = time.Second

// loginLimit bounds a request before the login.
func (c *conn) loginLimit(limit int) int {
	if c.login == nil || c.login.done {
		return limit
	}
	return min(limit, c.login.sasl.RequestBytes)
}

// handshake does what comes before the first request: TLS, and the name of the client.
func (c *conn) handshake() error {
	c.client = client{
		Identity: auth.Identity{Principal: auth.User(auth.Anonymous), Host: c.host},
		trusted:  c.how.Trusted, listener: c.how.Name,
	}
	secure, ok := c.raw.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := secure.HandshakeContext(c.ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	certificates := secure.ConnectionState().PeerCertificates
	if c.login != nil || len(certificates) == 0 || c.how.Names == nil {
		return nil
	}
	name, err := auth.DistinguishedName(certificates[0])
	if err != nil {
		return err
	}
	user, ok := c.how.Names.Name(name)
	if !ok {
		return fmt.Errorf("%q: %w", name, errNoIdentity)
	}
	c.client.Principal = auth.User(user)
	return nil
}

// allowed tells whether a request may come now.
func (l *login) allowed(key int16) error {
	saslKey := key == protocol.KeySaslHandshake || key == protocol.KeySaslAuthenticate
	switch {
	case !l.done && !saslKey && (key != protocol.KeyApiVersions || l.exchange != nil):
		return fmt.Errorf("%s: %w", protocol.KeyName(key), errNotLoggedIn)
	case !l.done && key == protocol.KeySaslAuthenticate && l.exchange == nil:
		return fmt.Errorf("%s: %w", protocol.KeyName(key), errNotLoggedIn)
	case l.done && !saslKey && !l.expires.IsZero() && !l.sasl.Now().Before(l.expires):
		return errExpired
	}
	return nil
}

// SaslHandshake (key 17), versions 0 and 1.
//
//   - Chooses the mechanism; UNSUPPORTED_SASL_MECHANISM tells those that there are and closes.
//   - After version 0 the tokens come without a header, after version 1 in SaslAuthenticate
//     (KIP-152).
//   - Where no login is asked for, and within a second of the last one: ILLEGAL_SASL_STATE.

func (c *conn) saslHandshake(head protocol.Header, body []byte) error {
	message, err := protocol.DecodeRequest(head.Key, head.Version, slices.Clone(body))
	if err != nil {
		return err
	}
	req := message.(*kmsg.SASLHandshakeRequest)
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	l := c.login
	if l != nil {
		l.asked = time.Now()
	}
	if l == nil || l.exchange != nil || l.done && l.sasl.Now().Sub(l.last) < minReauthInterval {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return c.answerNow(head, resp.IsFlexible(), resp)
	}
	resp.SupportedMechanisms = l.sasl.Mechanisms
	if !slices.Contains(l.sasl.Mechanisms, req.Mechanism) {
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return c.refuseLogin(head, resp, fmt.Errorf("SASL mechanism %q: %w", req.Mechanism, errLogin))
	}
	if l.done && req.Mechanism != l.mechanism {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return c.refuseLogin(head, resp, fmt.Errorf("SASL mechanism changed: %w", errLogin))
	}
	l.mechanism, l.exchange = req.Mechanism, l.sasl.begin(req.Mechanism)
	if l.raw = head.Version == 0; l.raw {
		c.in.least = 0
	}
	return c.answerNow(head, resp.IsFlexible(), resp)
}

// begin makes the broker's side of a login by an enabled mechanism.
func (s *SASL) begin(mechanism string) auth.Exchange {
	switch mechanism {
	case metadata.MechanismScramSHA256:
		return auth.NewScram(s.Users, metadata.ScramSHA256, nonce())
	case metadata.MechanismScramSHA512:
		return auth.NewScram(s.Users, metadata.ScramSHA512, nonce())
	case metadata.MechanismOAuthBearer:
		return auth.NewOAuth(s.Tokens)
	}
	return auth.NewPlain(s.Users)
}

// nonce is fresh random text.
func nonce() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// SaslAuthenticate (key 36), versions 0 to 2.
//
//   - Takes the next token of the mechanism. A failure is SASL_AUTHENTICATION_FAILED, after
//     connection.failed.authentication.delay.ms, and closes the connection.
//   - The answer to the last token tells how long the login lasts (version 1, KIP-368).
//   - A repeated login must be of the same user.

func (c *conn) saslAuthenticate(head protocol.Header, body []byte) error {
	message, err := protocol.DecodeRequest(head.Key, head.Version, slices.Clone(body))
	if err != nil {
		return err
	}
	req := message.(*kmsg.SASLAuthenticateRequest)
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	if c.login == nil || c.login.exchange == nil {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		resp.ErrorMessage = pointer("SaslAuthenticate request received after successful authentication")
		return c.answerNow(head, resp.IsFlexible(), resp)
	}
	token, lifetime, err := c.takeToken(req.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, c.loginMessage(err)
		return c.refuseLogin(head, resp, err)
	}
	resp.SASLAuthBytes, resp.SessionLifetimeMillis = nonNil(token), lifetime.Milliseconds()
	return c.answerNow(head, resp.IsFlexible(), resp)
}

// loginMessage is what the client is told, in Kafka's words, and never more than it knew.
func (c *conn) loginMessage(err error) *string {
	switch {
	case errors.Is(err, errPrincipalChanged):
		return pointer("Cannot change principals during re-authentication")
	case c.login.mechanism == metadata.MechanismPlain:
		return pointer("Authentication failed: Invalid username or password")
	}
	return pointer("Authentication failed during authentication due to invalid credentials with " +
		"SASL mechanism " + c.login.mechanism)
}

var errPrincipalChanged = errors.New("another user on the same connection")

// takeToken gives the exchange a token of the client, and ends the login if it was the last.
func (c *conn) takeToken(token []byte) (answer []byte, lifetime time.Duration, err error) {
	l := c.login
	now := l.sasl.Now()
	l.asked = time.Now()
	if !c.s.failures.mayTry(c.host) {
		return nil, 0, errTooManyFailures
	}
	answer, done, err := l.exchange.Step(now, token)
	if err != nil || !done {
		return answer, 0, err
	}
	who := l.exchange.Login()
	principal := auth.User(who.User)
	if l.done && principal != c.client.Principal {
		return nil, 0, errPrincipalChanged
	}
	lifetime = l.sasl.Reauthenticate
	if !who.Expires.IsZero() {
		// At least that, since it cannot log in again before: clocks differ, and the token was taken.
		left := max(who.Expires.Sub(now), minReauthInterval)
		if lifetime == 0 || left < lifetime {
			lifetime = left
		}
	}
	l.expires = time.Time{}
	if lifetime > 0 {
		l.expires = now.Add(lifetime)
	}
	l.exchange, l.raw, l.done, l.last = nil, false, true, now
	c.in.least = minFrameBytes
	if c.client.Principal != principal { // a repeated login is no write: answers may be on their way
		c.client.Principal = principal
	}
	c.s.count.logins.Add(1)
	c.loginTimer.Stop()
	if c.s.logins.allow() {
		c.s.log.Info("login", "audit", "login", "principal", principal, "client", c.host,
			"listener", c.how.Name, "mechanism", l.mechanism)
	}
	return answer, lifetime, nil
}

// rawToken takes a token without a header, after SaslHandshake version 0. There is no way to tell
// the client what is wrong but to close.
func (c *conn) rawToken(frame []byte) error {
	token, _, err := c.takeToken(slices.Clone(frame))
	if err != nil {
		return c.refuseLogin(protocol.Header{}, nil, err)
	}
	return c.rawAnswer(token)
}

// rawAnswer queues an answer that is only a size and bytes.
func (c *conn) rawAnswer(token []byte) error {
	slot := c.out.begin()
	if slot == nil {
		return net.ErrClosed
	}
	buf := takeBuffer(firstBufferBytes)
	*buf = append(append((*buf)[:0], 0, 0, 0, 0), token...)
	protocol.FinishFrame(*buf, 0, 0)
	c.out.finish(slot, answer{bytes: buf}, true)
	return nil
}

// refuseLogin answers a refused client, if resp is not nil, after the delay that makes guessing
// slow, and returns why the connection then ends. The delay counts from when the token came, so
// that it hides how long that was looked at.
func (c *conn) refuseLogin(head protocol.Header, resp kmsg.Response, why error) error {
	c.s.count.badLogins.Add(1)
	if !errors.Is(why, errTooManyFailures) {
		delay, answered := c.s.failures.failed(c.host, time.Now(), c.login.sasl.FailureDelay)
		wait(c.ctx, delay-time.Since(c.login.asked))
		answered()
	}
	if resp != nil {
		if err := c.answerNow(head, resp.IsFlexible(), resp); err != nil {
			return err
		}
		c.out.flush()
	}
	if !errors.Is(why, errLogin) {
		why = fmt.Errorf("%s: %w: %w", c.login.mechanism, errLogin, why)
	}
	return why
}
