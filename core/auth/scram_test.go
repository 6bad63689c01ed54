package auth_test

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
)

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// credential is made as RFC 5802 section 3 says.
func credential(t testing.TB, user, password string, salt []byte) metadata.ScramCredential {
	salted, err := pbkdf2.Key(sha256.New, password, salt, 4096, 32)
	require.NoError(t, err)
	stored := sha256.Sum256(mac(salted, "Client Key"))
	return metadata.ScramCredential{User: user, Mechanism: metadata.ScramSHA256, Salt: salt,
		StoredKey: stored[:], ServerKey: mac(salted, "Server Key"), Iterations: 4096}
}

func users(t testing.TB, list ...metadata.ScramCredential) auth.Users {
	return auth.Users{
		Scrams: func() []metadata.ScramCredential { return list },
		Secret: []byte("secret of the process"), Plain: map[string]string{"fixed": "word"},
		Scram: func(user string, m metadata.ScramMechanism) (metadata.ScramCredential, bool) {
			for _, c := range list {
				if c.User == user && c.Mechanism == m {
					return c, true
				}
			}
			return metadata.ScramCredential{}, false
		},
	}
}

// The exchange of RFC 7677 section 3.
const (
	rfcFirst     = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcNonce     = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcChallenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," +
		"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcFinal = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," +
		"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcSignature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcUsers(t testing.TB) auth.Users {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	require.NoError(t, err)
	return users(t, credential(t, "user", "pencil", salt))
}

func TestRFC7677_ExchangeOfTheSpecification(t *testing.T) {
	s := auth.NewScram(rfcUsers(t), metadata.ScramSHA256, rfcNonce)
	challenge, done, err := s.Step(time.Time{}, []byte(rfcFirst))
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, rfcChallenge, string(challenge))
	answer, done, err := s.Step(time.Time{}, []byte(rfcFinal))
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, rfcSignature, string(answer))
	require.Equal(t, "user", s.Login().User)
	_, _, err = s.Step(time.Time{}, []byte(rfcFinal))
	require.ErrorIs(t, err, auth.ErrBadToken, "an exchange is over once it is done")
}

// Each line changes one thing of the exchange that must not be changed: the nonce (CVE-2024-56128),
// the proof, the channel binding, the user it is done for (CVE-2017-12610).
func TestScramRefusesWhatIsNotTheExchange(t *testing.T) {
	bad := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, c := range map[string]struct {
		first, final string
		want         error
	}{
		"the client's nonce alone": {rfcFirst,
			"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=" + bad, auth.ErrInvalidCredentials},
		"another nonce": {rfcFirst, strings.Replace(rfcFinal, "k0,", "k1,", 1),
			auth.ErrInvalidCredentials},
		"a proof of zeros": {rfcFirst, rfcFinal[:strings.Index(rfcFinal, "p=")+2] + bad,
			auth.ErrInvalidCredentials},
		"no proof": {rfcFirst, rfcFinal[:strings.Index(rfcFinal, ",p=")], auth.ErrBadToken},
		"a short proof": {rfcFirst, rfcFinal[:strings.Index(rfcFinal, "p=")+2] + "AAAA",
			auth.ErrInvalidCredentials},
		"another header":       {rfcFirst, strings.Replace(rfcFinal, "biws", "eSws", 1), auth.ErrBadToken},
		"channel binding":      {"p=tls-unique,,n=user,r=x", "", auth.ErrBadToken},
		"mandatory extension":  {"n,,m=x,n=user,r=x", "", auth.ErrBadToken},
		"another user's name":  {"n,a=admin,n=user,r=x", "", auth.ErrAuthorizationID},
		"a delegation token":   {"n,,n=user,r=x,tokenauth=true", "", auth.ErrInvalidCredentials},
		"no user":              {"n,,n=,r=x", "", auth.ErrBadToken},
		"no nonce":             {"n,,n=user,r=", "", auth.ErrBadToken},
		"an escape that is no": {"n,,n=us=2Der,r=x", "", auth.ErrBadToken},
		"nothing":              {"", "", auth.ErrBadToken},
		"no text":              {"\xff\xfe", "", auth.ErrBadToken},
	} {
		t.Run(name, func(t *testing.T) {
			s := auth.NewScram(rfcUsers(t), metadata.ScramSHA256, rfcNonce)
			_, done, err := s.Step(time.Time{}, []byte(c.first))
			if c.final != "" {
				require.NoError(t, err)
				_, done, err = s.Step(time.Time{}, []byte(c.final))
			}
			require.ErrorIs(t, err, c.want)
			require.False(t, done)
		})
	}
}

// CVE-2024-56128: a proof that is right for a nonce which is not this exchange's, as of an earlier
// one, is no proof.
func TestScramChecksTheNonceOfAGoodProof(t *testing.T) {
	salt := []byte("salt")
	salted, err := pbkdf2.Key(sha256.New, "pencil", salt, 4096, 32)
	require.NoError(t, err)
	for nonce, want := range map[string]error{"CN": nil, "C": auth.ErrInvalidCredentials,
		"CM": auth.ErrInvalidCredentials} {
		s := auth.NewScram(users(t, credential(t, "user", "pencil", salt)), metadata.ScramSHA256, "N")
		challenge, _, err := s.Step(time.Time{}, []byte("n,,n=user,r=C"))
		require.NoError(t, err)
		last := "c=biws,r=" + nonce
		key := mac(salted, "Client Key")
		stored := sha256.Sum256(key)
		proof := mac(stored[:], "n=user,r=C,"+string(challenge)+","+last)
		for i := range proof {
			proof[i] ^= key[i]
		}
		_, done, err := s.Step(time.Time{},
			[]byte(last+",p="+base64.StdEncoding.EncodeToString(proof)))
		require.ErrorIs(t, err, want, nonce)
		require.Equal(t, want == nil, done)
	}
}

// A user that is not there must not be told from one with a wrong password, nor change its salt
// from one login to the next.
func TestScramAnswersUnknownUsersAlike(t *testing.T) {
	ask := func(user string) string {
		s := auth.NewScram(rfcUsers(t), metadata.ScramSHA256, "N")
		challenge, _, err := s.Step(time.Time{}, []byte("n,,n="+user+",r=C"))
		require.NoError(t, err)
		_, _, err = s.Step(time.Time{}, []byte("c=biws,r=CN,p="+
			base64.StdEncoding.EncodeToString(make([]byte, 32))))
		require.Equal(t, auth.ErrInvalidCredentials, err)
		return string(challenge)
	}
	known, nobody := ask("user"), ask("nobody")
	require.Equal(t, strings.Count(known, ","), strings.Count(nobody, ","))
	require.True(t, strings.HasSuffix(known, ",i=4096") && strings.HasSuffix(nobody, ",i=4096"))
	require.Equal(t, nobody, ask("nobody"))
	require.NotEqual(t, nobody, ask("nobody2"))
}

// TestUnknownUsersLookLikeThoseThatAreThere: a user that does not exist is asked for as many
// iterations, with a salt of the same look, as one that does, or they would tell who exists.
func TestUnknownUsersLookLikeThoseThatAreThere(t *testing.T) {
	challenge := func(u auth.Users) (salt []byte, iterations string) {
		s := auth.NewScram(u, metadata.ScramSHA256, "N")
		answer, _, err := s.Step(time.Time{}, []byte("n,,n=nobody,r=C"))
		require.NoError(t, err)
		parts := strings.Split(string(answer), ",")
		salt, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[1], "s="))
		require.NoError(t, err)
		return salt, parts[2]
	}
	c := credential(t, "bob", "right", []byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	c.Iterations = 12_000
	salt, iterations := challenge(users(t, c))
	require.Len(t, salt, 10)
	require.Equal(t, "i=12000", iterations)
	c.Salt = []byte("1dl9p3xk0mmz7c6v5qjr2dd90q")
	salt, _ = challenge(users(t, c))
	require.Regexp(t, "^[0-9a-z]{26}$", string(salt))
	salt, iterations = challenge(users(t)) // those of kafka-configs
	require.Regexp(t, "^[0-9a-z]{26}$", string(salt))
	require.Equal(t, "i=4096", iterations)
}

// TestPlainTakesAsLongForEachUser: a wrong password of a user of the settings, of one with a
// credential and of one that does not exist are answered after the same work.
func TestPlainTakesAsLongForEachUser(t *testing.T) {
	c := credential(t, "bob", "right", []byte("salt"))
	c.Iterations = 10_000
	u := users(t, c)
	best := map[string]time.Duration{}
	try := func(user string) {
		for range 12 {
			began := time.Now()
			_, _, err := auth.NewPlain(u).Step(began, []byte("\x00"+user+"\x00wrong"))
			took := time.Since(began)
			require.ErrorIs(t, err, auth.ErrInvalidCredentials)
			if best[user] == 0 || took < best[user] {
				best[user] = took
			}
		}
	}
	// On a busy machine the shortest time of each user is a matter of some tries.
	for _, user := range []string{"fixed", "nobody"} {
		require.Eventually(t, func() bool {
			try("bob")
			try(user)
			return math.Abs(float64(best["bob"]-best[user])) < 0.7*float64(best["bob"])
		}, time.Minute, time.Millisecond, "%s: %v", user, best)
	}
}

func TestScramNamesMayHaveCommas(t *testing.T) {
	s := auth.NewScram(users(t, credential(t, "a,b=c", "p", []byte("salt"))),
		metadata.ScramSHA256, "N")
	challenge, _, err := s.Step(time.Time{}, []byte("n,,n=a=2Cb=3Dc,r=C"))
	require.NoError(t, err)
	require.Contains(t, string(challenge), base64.StdEncoding.EncodeToString([]byte("salt")))
}

func TestPlainChecksSettingsAndCredentials(t *testing.T) {
	u := users(t, credential(t, "bob", "right", []byte("salt")))
	for token, want := range map[string]error{
		"\x00bob\x00right":        nil,
		"bob\x00bob\x00right":     nil,
		"\x00fixed\x00word":       nil,
		"\x00bob\x00wrong":        auth.ErrInvalidCredentials,
		"\x00fixed\x00right":      auth.ErrInvalidCredentials,
		"\x00nobody\x00right":     auth.ErrInvalidCredentials,
		"\x00nobody\x00":          auth.ErrInvalidCredentials,
		"\x00\x00right":           auth.ErrInvalidCredentials,
		"admin\x00bob\x00right":   auth.ErrAuthorizationID,
		"admin\x00bob\x00wrong":   auth.ErrInvalidCredentials,
		"bob\x00right":            auth.ErrBadToken,
		"\x00bob\x00right\x00":    auth.ErrBadToken,
		"":                        auth.ErrBadToken,
		"\x00bob\x00\xff\xfe\xfd": auth.ErrBadToken,
	} {
		p := auth.NewPlain(u)
		_, done, err := p.Step(time.Time{}, []byte(token))
		require.Equal(t, want == nil, done, "%q", token)
		require.ErrorIs(t, err, want, "%q", token)
		if want == nil {
			require.NotEmpty(t, p.Login().User)
		}
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte(rfcFirst), []byte(rfcFinal))
	f.Add([]byte("\x00bob\x00right"), []byte{})
	f.Add([]byte("n,a=x,\x01auth=Bearer a.b.c\x01\x01"), []byte("\x01"))
	u := rfcUsers(f)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		rules := &auth.TokenRules{Keys: func(string) (*auth.KeySet, error) {
			return nil, auth.ErrInvalidCredentials
		}}
		for _, x := range []auth.Exchange{auth.NewScram(u, metadata.ScramSHA512, "N"),
			auth.NewPlain(u), auth.NewOAuth(rules)} {
			for _, token := range [][]byte{first, second} {
				if _, done, err := x.Step(time.Time{}, token); done || err != nil {
					require.False(t, done && err != nil)
					break
				}
			}
		}
	})
}
