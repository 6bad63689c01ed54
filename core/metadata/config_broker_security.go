package metadata

import (
	"slices"
	"strings"
)

// StandardAuthorizer is the one value of authorizer.class.name that turns access control on.
const StandardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// The SASL mechanisms that can be enabled.
const (
	MechanismPlain       = "PLAIN"
	MechanismScramSHA256 = "SCRAM-SHA-256"
	MechanismScramSHA512 = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER"
)

// listenerPrefix begins the name of a setting of one listener: listener.name.in.ssl.client.auth is
// ssl.client.auth of the listener IN.
const listenerPrefix = "listener.name."

// securityConfigs are who may connect, and who may do what. They are read at start; certificates
// are read again when their files change.
var securityConfigs = slices.Concat([]*ConfigDef{
	setting("listener.security.protocol.map", String,
		"SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
		"Protocol of each listener."),
	setting("authorizer.class.name", String, "",
		"Access control: empty for none, or "+StandardAuthorizer+".").among("", StandardAuthorizer),
	setting("super.users", String, "", "Principals that may do everything, with ; between them."),
	setting("allow.everyone.if.no.acl.found", Boolean, "false", "Access to what no rule speaks of."),
	// GSSAPI is Kafka's default, which nobody means who has set none.
	setting("sasl.enabled.mechanisms", List, "GSSAPI", "SASL mechanisms; GSSAPI is not served.").
		among("GSSAPI", MechanismPlain, MechanismScramSHA256, MechanismScramSHA512,
			MechanismOAuthBearer),
	setting("sasl.server.max.receive.size", Int, "524288",
		"Largest request before a client has logged in; at most 65536 is taken.").atLeast(1),
	setting("connections.max.reauth.ms", Long, "0", "When a client must log in again; 0 is never."),
	setting("connection.failed.authentication.delay.ms", Int, "100",
		"Pause before a failed login is answered.").atLeast(0),
	secret(setting("sasl.jaas.config", Password, "-",
		"Users of PLAIN, as user_name=\"password\" options, under "+
			"listener.name.{listener}.plain.sasl.jaas.config.")),
}, sslConfigs, oauthConfigs)

var sslConfigs = []*ConfigDef{
	setting("ssl.client.auth", String, "none", "Whether clients show certificates.").
		among("none", "requested", "required"),
	setting("ssl.enabled.protocols", List, "TLSv1.2,TLSv1.3", "TLS versions.").
		among("TLSv1.2", "TLSv1.3"),
	setting("ssl.keystore.type", String, "PEM", "Form of the key store.").among("PEM"),
	setting("ssl.truststore.type", String, "PEM", "Form of the trust store.").among("PEM"),
	setting("ssl.keystore.location", String, "-", "PEM file with the key and its certificates."),
	setting("ssl.truststore.location", String, "-",
		"PEM file with the authorities of clients' certificates."),
	secret(setting("ssl.keystore.key", Password, "-", "PEM key, in the place of a file.")),
	secret(setting("ssl.keystore.certificate.chain", Password, "-",
		"PEM certificates of ssl.keystore.key.")),
	secret(setting("ssl.truststore.certificates", Password, "-",
		"PEM authorities, in the place of a file.")),
	setting("ssl.principal.mapping.rules", String, "DEFAULT",
		"Rules that make a user's name of a certificate's."),
}

var oauthConfigs = []*ConfigDef{
	setting("sasl.oauthbearer.jwks.endpoint.url", String, "-",
		"Where the issuer's keys are: https or file. Needed for OAUTHBEARER."),
	setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Long, "3600000",
		"When the keys are read again.").atLeast(1),
	setting("sasl.oauthbearer.expected.issuer", String, "-",
		"Issuer of the tokens. Needed for OAUTHBEARER."),
	setting("sasl.oauthbearer.expected.audience", List, "",
		"Audiences of which a token must have one. Needed for OAUTHBEARER."),
	setting("sasl.oauthbearer.clock.skew.seconds", Int, "30",
		"By how much clocks may differ.").atLeast(0),
	setting("sasl.oauthbearer.sub.claim.name", String, "sub", "Claim with the user's name."),
}

// among bounds a setting, or each element of a list, to values.
func (d *ConfigDef) among(values ...string) *ConfigDef {
	d.Enum = values
	return d
}

// secret marks a setting that is never shown.
func secret(d *ConfigDef) *ConfigDef {
	d.Sensitive = true
	return d
}

// lookupListenerConfig returns the definition of a setting of one listener. Its own name is kept,
// so that errors and values tell it.
func lookupListenerConfig(name string) (*ConfigDef, bool) {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return nil, false
	}
	listener, setting, ok := strings.Cut(rest, ".")
	if !ok || listener == "" {
		return nil, false
	}
	if mechanism, ok := strings.CutSuffix(setting, ".sasl.jaas.config"); ok {
		if mechanism != "plain" {
			return nil, false
		}
		setting = "sasl.jaas.config"
	} else if !strings.HasPrefix(setting, "ssl.") && setting != "sasl.enabled.mechanisms" &&
		setting != "connections.max.reauth.ms" {
		return nil, false
	}
	def, ok := lookup(brokerConfigs, setting)
	if !ok {
		return nil, false
	}
	own := *def
	own.Name = name
	return &own, true
}

// ListenerConfig returns the value of a setting for a listener: its own, else the broker's.
func (i *Image) ListenerConfig(listener, name string) string {
	own := listenerPrefix + strings.ToLower(listener) + "." + name
	if def, ok := lookupListenerConfig(own); ok {
		if value, set := i.static[own]; set {
			return def.Normalize(value)
		}
	}
	return i.BrokerConfigValue(name)
}

// PlainUsers returns the passwords of the users that a listener's sasl.jaas.config names.
func (i *Image) PlainUsers(listener string) (map[string]string, error) {
	return ParseJaasUsers(i.static[listenerPrefix+strings.ToLower(listener)+".plain.sasl.jaas.config"])
}
