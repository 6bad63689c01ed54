package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
)

// everythingLogged keeps a broker's log, down to its least line.
type everythingLogged struct {
	sync.Mutex
	bytes.Buffer
}

func (b *everythingLogged) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

// TestS17_SecretsAreNotTold: passwords in the settings, passwords that were sent, and those that
// were set are told to nobody: not among the configs, in the log at its finest, on the page of
// metrics, in an answer or in an error. Each has the word "canary" in it.
func TestS17_SecretsAreNotTold(t *testing.T) {
	log := new(everythingLogged)
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required " +
		`user_admin="a" user_alice="canary-alice" password="canary-broker";`
	c := coretest.Start(t, coretest.Options{
		Config: secured("listener.name.sasl_plaintext.plain.sasl.jaas.config", jaas,
			"slow.request.log.threshold.ms", "0", "ssl.keystore.key", "canary-key"),
		Change: func(o *core.Options) {
			o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		},
	})
	admin := dialAs(t, c, "admin", "a")
	told := func(resp kmsg.Response) {
		t.Helper()
		text, err := json.Marshal(resp)
		require.NoError(t, err)
		require.NotContains(t, string(text), "canary")
	}
	shown := requireSensitiveAreHidden(t, admin, told)
	require.Greater(t, shown, 100)

	// Who logs in, well and badly.
	dialAs(t, c, "alice", "canary-alice")
	for _, token := range []string{"\x00alice\x00canary-wrong", "\x00canary\x00x\x00y", "canary"} {
		w := dialListener(t, c, "SASL_PLAINTEXT")
		w.handshake(1, "PLAIN")
		told(w.authenticate(token))
	}
	w := dialListener(t, c, "SASL_PLAINTEXT")
	w.handshake(1, "SCRAM-SHA-256")
	told(w.authenticate("n,,n=alice,r=canary-nonce,x=" + strings.Repeat("canary", 20)))

	// A password that is set, and settings that are refused, with what they were to be.
	alter := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations = "bob", 1, 8192
	up.Salt, up.SaltedPassword = []byte("canary-salt"), []byte("canary-password-of-32-bytes-or-so")
	alter.Upsertions = append(alter.Upsertions, up)
	told(ask[*kmsg.AlterUserSCRAMCredentialsResponse](admin, alter))
	describe := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	told(ask[*kmsg.DescribeUserSCRAMCredentialsResponse](admin, describe))
	for _, name := range []string{"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config"} {
		for _, broker := range []string{"1", ""} {
			value := jaas[:len(jaas)-2] // its last quote is missing
			told(ask[*kmsg.IncrementalAlterConfigsResponse](admin, alterOne(4, broker, name, value, 0)))
		}
	}
	page := metricsPage(t, c)
	require.NotContains(t, page, "canary")
	c.Restart()
	c.Stop()
	log.Lock()
	defer log.Unlock()
	require.Contains(t, log.String(), "level=DEBUG", "the log is not at its finest")
	require.Contains(t, log.String(), "alice", "the logins are not in the log")
	for line := range strings.Lines(log.String()) {
		require.NotContains(t, line, "canary-", "a secret is in the log")
	}
}

// requireSensitiveAreHidden describes everything that has settings, with all that can be asked for,
// and returns how many settings those were.
func requireSensitiveAreHidden(t *testing.T, admin *wire, told func(kmsg.Response)) (n int) {
	t.Helper()
	sensitive := map[string]bool{}
	for _, d := range metadata.BrokerConfigDefs() {
		sensitive[d.Name] = d.Sensitive
	}
	require.True(t, sensitive["sasl.jaas.config"] && sensitive["ssl.keystore.key"])
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{{4, "1"}, {4, ""}, {8, "1"}, {32, "g"}, {16, "m"}} {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = r.kind, r.name
		req.Resources = append(req.Resources, resource)
	}
	resp := ask[*kmsg.DescribeConfigsResponse](admin, req)
	told(resp)
	set := 0
	for _, r := range resp.Resources {
		for _, v := range r.Configs {
			n++
			if !v.IsSensitive {
				continue
			}
			require.Nil(t, v.Value, v.Name)
			for _, s := range v.ConfigSynonyms {
				require.Nil(t, s.Value, v.Name)
				set++
			}
		}
	}
	require.Positive(t, set, "no secret was set")
	return n
}

const plainUsers = "listener.name.sasl_plaintext.plain.sasl.jaas.config"

// TestS17_BadSecretsStopTheStartUnseen: a start that is refused for a setting with a secret in it
// does not quote it.
func TestS17_BadSecretsStopTheStartUnseen(t *testing.T) {
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required "
	for name, config := range map[string][2]string{
		"open quote":   {plainUsers, jaas + `user_admin="canary`},
		"no name":      {plainUsers, jaas + `"canary";`},
		"no module":    {plainUsers, `canary required user_admin="canary";`},
		"no PEM":       {"ssl.keystore.key", "canary"},
		"half a PEM":   {"ssl.keystore.key", "-----BEGIN PRIVATE KEY-----\ncanary"},
		"not a PEM CA": {"ssl.truststore.certificates", "canary"},
	} {
		settings := secured(config[0], config[1])
		if config[0] != plainUsers {
			settings["listeners"] = "SSL://broker:9092"
			settings["ssl.client.auth"] = "required"
		}
		log := new(everythingLogged)
		b, err := core.Open(context.Background(), core.Options{
			DataDir: "/millstream", Config: settings, FS: vfs.NewMem(), Net: vnet.NewPipe(),
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err == nil {
			_ = b.Close(context.Background())
		}
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "canary", name)
		require.NotContains(t, log.String(), "canary", name)
	}
}
