package server_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
)

// requireClosed requires that the broker has closed the connection, without another answer.
func (w *wire) requireClosed() {
	w.t.Helper()
	_ = w.c.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := w.c.Read(make([]byte, 1))
	require.Zero(w.t, n)
	require.Error(w.t, err)
	require.False(w.t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is open")
}

func (w *wire) handshake(version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return w.receive(req, w.send(req)).(*kmsg.SASLHandshakeResponse)
}

func (w *wire) authenticate(token string) *kmsg.SASLAuthenticateResponse {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(token)
	return w.receive(req, w.send(req)).(*kmsg.SASLAuthenticateResponse)
}

// Whoever asks anything but for versions and a login is gone before he is heard.
func TestNothingIsServedBeforeTheLogin(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	keys := advertised(dialListener(t, c, "SASL_PLAINTEXT")) // versions may be asked
	for _, k := range keys {
		if k.ApiKey == 17 || k.ApiKey == 18 {
			continue
		}
		req := kmsg.RequestForKey(k.ApiKey)
		req.SetVersion(k.MaxVersion)
		w := dialListener(t, c, "SASL_PLAINTEXT")
		w.send(req)
		w.requireClosed()
		if k.ApiKey == 36 {
			continue // is what comes next
		}
		w = dialListener(t, c, "SASL_PLAINTEXT")
		require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
		w.send(req)
		w.requireClosed()
	}
}

// The codes are those of a Kafka 4.4.
func TestLoginCodes(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	w := dialListener(t, c, "SASL_PLAINTEXT")
	resp := w.handshake(1, "GSSAPI")
	require.Equal(t, int16(33), resp.ErrorCode) // UNSUPPORTED_SASL_MECHANISM
	require.Equal(t, []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, resp.SupportedMechanisms)
	w.requireClosed()

	w = dialListener(t, c, "SASL_PLAINTEXT")
	require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
	failed := w.authenticate("\x00alice\x00wrong")
	require.Equal(t, int16(58), failed.ErrorCode) // SASL_AUTHENTICATION_FAILED
	require.Equal(t, "Authentication failed: Invalid username or password", *failed.ErrorMessage)
	w.requireClosed()

	w = dialAs(t, c, "alice", "b")
	require.Equal(t, int16(34), w.authenticate("").ErrorCode) // ILLEGAL_SASL_STATE
	require.Equal(t, int16(34), w.handshake(1, "PLAIN").ErrorCode, "again within a second")

	w = dialListener(t, c, "PLAINTEXT")
	require.Equal(t, int16(34), w.handshake(1, "PLAIN").ErrorCode)
	require.Equal(t, int16(34), w.authenticate("").ErrorCode)
}

// KIP-152 kept the old way: after SaslHandshake version 0 the tokens come without a header.
func TestLoginWithRawTokens(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	token := func(w *wire, text string) {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		_, err := w.c.Write(append(frame, text...))
		require.NoError(t, err)
	}
	w := dialListener(t, c, "SASL_PLAINTEXT")
	require.Zero(t, w.handshake(0, "PLAIN").ErrorCode)
	token(w, "\x00admin\x00a")
	var size [4]byte
	_, err := io.ReadFull(w.c, size[:])
	require.NoError(t, err)
	require.Equal(t, [4]byte{}, size, "an empty token")
	advertised(w)

	w = dialListener(t, c, "SASL_PLAINTEXT")
	require.Zero(t, w.handshake(0, "PLAIN").ErrorCode)
	token(w, "\x00admin\x00x")
	w.requireClosed()
}

// Before the login a client gets 64 KiB (S5), even for what looks like a Produce request.
func TestRequestsBeforeTheLoginAreSmall(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured("sasl.server.max.receive.size", "2000"),
		Change: func(o *core.Options) { // the size is what closes it, no wait for more
			o.Limits.LoginTimeout, o.Limits.StepTimeout = time.Hour, time.Hour
		}})
	for _, size := range []uint32{2001, 1 << 20, 1 << 31} {
		w := dialListener(t, c, "SASL_PLAINTEXT")
		frame := binary.BigEndian.AppendUint32(nil, size)
		_, err := w.c.Write(append(frame, 0, 0, 0, 9, 0, 0, 0, 1))
		require.NoError(t, err)
		w.requireClosed()
	}
}

func TestLoginHasToComeInTime(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured(), Change: func(o *core.Options) {
		o.Limits.LoginTimeout = 3 * time.Second
	}})
	w := dialListener(t, c, "SASL_PLAINTEXT")
	require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
	w.requireClosed()
}

func TestFailedLoginIsAnsweredLate(t *testing.T) {
	c := coretest.Start(t, coretest.Options{
		Config: secured("connection.failed.authentication.delay.ms", "150")})
	w := dialListener(t, c, "SASL_PLAINTEXT")
	require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
	start := time.Now()
	require.Equal(t, int16(58), w.authenticate("\x00alice\x00wrong").ErrorCode)
	require.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)
}

// KIP-368: the answer tells how long the login lasts; after that only another login is taken, which
// must be of the same user.
func TestKIP368_LoginExpires(t *testing.T) {
	var later atomic.Int64
	c := coretest.Start(t, coretest.Options{Config: secured("connections.max.reauth.ms", "1200"),
		Change: func(o *core.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		}})
	login := func() *wire {
		w := dialListener(t, c, "SASL_PLAINTEXT")
		require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
		require.Equal(t, int64(1200), w.authenticate("\x00admin\x00a").SessionLifetimeMillis)
		return w
	}
	same, other, late := login(), login(), login()
	advertised(late)
	later.Store(int64(1200 * time.Millisecond))

	require.Zero(t, same.handshake(1, "PLAIN").ErrorCode)
	require.Equal(t, int64(1200), same.authenticate("\x00admin\x00a").SessionLifetimeMillis)
	advertised(same)

	require.Zero(t, other.handshake(1, "PLAIN").ErrorCode)
	require.Equal(t, int16(58), other.authenticate("\x00alice\x00b").ErrorCode)
	other.requireClosed()

	late.send(kmsg.NewPtrMetadataRequest())
	late.requireClosed()
}

// Where access is not controlled there are no rules, as in Kafka.
func TestRulesNeedAnAuthorizer(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	for _, key := range []int16{29, 30, 31} {
		req := matrixRequest(key, 3)
		require.Contains(t, codesIn(w.receive(req, w.send(req))), int16(54)) // SECURITY_DISABLED
	}
}

// A filter of an unknown type closes the connection to a Kafka; here it is answered.
func TestUnknownFiltersAreInvalid(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	w := dialAs(t, c, "admin", "a")
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version = 3
	require.Contains(t, codesIn(w.receive(req, w.send(req))), int16(42)) // INVALID_REQUEST
}

// KIP-430: what may be done is told to who asks.
func TestKIP430_AuthorizedOperations(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	prepareMatrix(t, admin)
	setAccess(admin, nil, nil)
	alice := dialAs(t, c, "alice", "b")
	ask := func(w *wire) (topic, cluster int32) {
		req := matrixRequest(3, 10).(*kmsg.MetadataRequest)
		req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
		resp := w.receive(req, w.send(req)).(*kmsg.MetadataResponse)
		return resp.Topics[0].AuthorizedOperations, resp.AuthorizedOperations
	}
	topic, cluster := ask(admin)
	require.Equal(t, int32(1<<3|1<<4|1<<5|1<<6|1<<7|1<<8|1<<10|1<<11), topic)
	require.Equal(t, int32(1<<5|1<<7|1<<8|1<<9|1<<10|1<<11|1<<12), cluster)
	setAccess(admin, grantsOf(2, 3), nil) // READ on topics
	topic, cluster = ask(alice)
	require.Equal(t, int32(1<<3|1<<8), topic, "READ and the DESCRIBE that comes with it")
	require.Zero(t, cluster)
}

// TestGuessesOverManyConnectionsBecomeSlow: each connection is refused after one password, so who
// guesses uses many; the answers come later and later, while the right password is taken at once.
func TestGuessesOverManyConnectionsBecomeSlow(t *testing.T) {
	c := coretest.Start(t, coretest.Options{
		Config: secured("connection.failed.authentication.delay.ms", "10")})
	try := func(password string) (int16, time.Duration) {
		w := dialListener(t, c, "SASL_PLAINTEXT")
		require.Zero(t, w.handshake(1, "PLAIN").ErrorCode)
		start := time.Now()
		code := w.authenticate("\x00alice\x00" + password).ErrorCode
		return code, time.Since(start)
	}
	for range 14 {
		code, _ := try("wrong")
		require.Equal(t, int16(58), code)
	}
	code, took := try("wrong") // the 15th: 10 ms, doubled 5 times
	require.Equal(t, int16(58), code)
	require.GreaterOrEqual(t, took, 320*time.Millisecond)
	var least time.Duration
	for n := range 20 { // one that the machine does not hold up
		code, took = try("b")
		require.Zero(t, code)
		if n == 0 || took < least {
			least = took
		}
	}
	require.Less(t, least, 250*time.Millisecond)
}

// TestScramIterationsAreBounded: too few are guessed fast, too many cost the broker as much as the
// client. The codes and bounds are Kafka's.
func TestScramIterationsAreBounded(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: secured()})
	admin := dialAs(t, c, "admin", "a")
	for iterations, want := range map[int32]int16{4095: 93, 4096: 0, 16384: 0, 16385: 93, 0: 93,
		-1: 93} {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		up.Name, up.Mechanism, up.Iterations = "carol", 1, iterations
		up.Salt, up.SaltedPassword = []byte("salt"), make([]byte, 32)
		req.Upsertions = append(req.Upsertions, up)
		resp := ask[*kmsg.AlterUserSCRAMCredentialsResponse](admin, req)
		require.Equal(t, want, resp.Results[0].ErrorCode, iterations)
	}
}
