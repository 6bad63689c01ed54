package core

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/server"
)

// ErrNoAuthentication says that a listener would serve other machines without asking who they are.
var ErrNoAuthentication = errors.New("no authentication on an address that others can reach")

// defaultListenerName is the name of the listener of Options.Listen.
const defaultListenerName = "PLAINTEXT"

// listenerSpec is one listener as the settings describe it.
type listenerSpec struct {
	name, protocol string // the protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	address        string // listened on
	advertised     string // told to clients; "" is the address
}

// encrypted and login tell what the protocol of a listener has.
func (l *listenerSpec) encrypted() bool { return strings.HasSuffix(l.protocol, "SSL") }
func (l *listenerSpec) login() bool     { return strings.HasPrefix(l.protocol, "SASL_") }

// openListener is a listener that clients are taken from.
type openListener struct {
	listenerSpec
	net.Listener
	how *server.Listener
}

// listenerSpecs reads listeners, advertised.listeners and listener.security.protocol.map; without
// the first there is the one of Options.Listen.
func listenerSpecs(o *Options, image *metadata.Image) ([]listenerSpec, error) {
	given := o.Config["listeners"]
	if given == "" {
		return []listenerSpec{{name: defaultListenerName, protocol: defaultListenerName,
			address: o.Listen}}, nil
	}
	protocols, err := pairs(image.BrokerConfigValue("listener.security.protocol.map"))
	if err != nil {
		return nil, fmt.Errorf("listener.security.protocol.map: %w", err)
	}
	advertised := make(map[string]string)
	for element := range strings.SplitSeq(o.Config["advertised.listeners"], ",") {
		if element = strings.TrimSpace(element); element == "" {
			continue
		}
		name, address, ok := strings.Cut(element, "://")
		if !ok {
			return nil, fmt.Errorf("advertised.listeners: %q is not NAME://host:port", element)
		}
		advertised[strings.ToUpper(name)] = address
	}
	var specs []listenerSpec
	for element := range strings.SplitSeq(given, ",") {
		name, address, ok := strings.Cut(strings.TrimSpace(element), "://")
		if !ok || name == "" {
			return nil, fmt.Errorf("listeners: %q is not NAME://host:port", element)
		}
		name = strings.ToUpper(name)
		spec := listenerSpec{name: name, protocol: protocols[name], address: address,
			advertised: advertised[name]}
		switch spec.protocol {
		case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
		default:
			return nil, fmt.Errorf("listener %s: listener.security.protocol.map has no protocol for it",
				name)
		}
		if slices.ContainsFunc(specs, func(l listenerSpec) bool { return l.name == name }) {
			return nil, fmt.Errorf("listener %s is there twice", name)
		}
		delete(advertised, name)
		specs = append(specs, spec)
	}
	for name := range advertised {
		return nil, fmt.Errorf("advertised.listeners: there is no listener %s", name)
	}
	return specs, nil
}

// pairs reads NAME:value,... with the names in capitals.
func pairs(value string) (map[string]string, error) {
	m := make(map[string]string)
	for element := range strings.SplitSeq(value, ",") {
		if element = strings.TrimSpace(element); element == "" {
			continue
		}
		name, v, ok := strings.Cut(element, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME:protocol", element)
		}
		m[strings.ToUpper(strings.TrimSpace(name))] = strings.ToUpper(strings.TrimSpace(v))
	}
	return m, nil
}

// openListeners takes the addresses and makes what says how clients are taken. Certificates and
// keys that are missing or bad end the start.
func (b *Broker) openListeners(ctx context.Context) error {
	static := metadata.NewImage(b.opts.NodeID, b.opts.Config)
	if b.opts.Config["sasl.jaas.config"] != "" {
		return errors.New("sasl.jaas.config is given for one listener and mechanism: " +
			"listener.name.{listener}.plain.sasl.jaas.config")
	}
	specs, err := listenerSpecs(&b.opts, static)
	if err != nil {
		return fmt.Errorf("read the listeners: %w", err)
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	for _, spec := range specs {
		how, err := b.howToServe(ctx, static, &spec, secret)
		if err != nil {
			return fmt.Errorf("listener %s: %w", spec.name, err)
		}
		l, err := b.opts.Net.Listen(ctx, spec.address)
		if err != nil {
			return fmt.Errorf("listen for Kafka clients: %w", err)
		}
		b.listeners = append(b.listeners, &openListener{spec, l, how})
		if err := b.checkReach(l.Addr(), spec.login() || requiresCertificate(static, &spec)); err != nil {
			return fmt.Errorf("listener %s: %w", spec.name, err)
		}
	}
	return nil
}

// requiresCertificate tells whether clients of a listener must show a certificate.
func requiresCertificate(image *metadata.Image, spec *listenerSpec) bool {
	return spec.encrypted() && image.ListenerConfig(spec.name, "ssl.client.auth") == "required"
}

// checkReach refuses an address that other machines can reach, if nobody asks who they are.
func (b *Broker) checkReach(at net.Addr, asked bool) error {
	tcp, ok := at.(*net.TCPAddr)
	if asked || b.opts.Insecure || !ok || tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s: %w: use SASL or client certificates, listen on 127.0.0.1, or say "+
		"--insecure", at, ErrNoAuthentication)
}

// howToServe makes what the server needs to know about a listener.
func (b *Broker) howToServe(
	ctx context.Context, image *metadata.Image, spec *listenerSpec, secret []byte,
) (*server.Listener, error) {
	how := &server.Listener{Name: spec.name}
	if spec.encrypted() {
		source, err := newTLSSource(b.opts.FS, image, spec.name, b.levels.logger(loggerServer))
		if err != nil {
			return nil, err
		}
		how.TLS = source.config()
		rules := image.ListenerConfig(spec.name, "ssl.principal.mapping.rules")
		if how.Names, err = auth.ParseNameRules(rules); err != nil {
			return nil, err
		}
	}
	if !spec.login() {
		return how, nil
	}
	plain, err := image.PlainUsers(spec.name)
	if err != nil {
		return nil, err
	}
	millis := func(name string) time.Duration {
		n, _ := strconv.ParseInt(image.ListenerConfig(spec.name, name), 10, 64) // was validated
		return time.Duration(n) * time.Millisecond
	}
	how.SASL = &server.SASL{
		Users: auth.Users{
			Plain: plain, Secret: secret,
			Scram: func(user string, m metadata.ScramMechanism) (metadata.ScramCredential, bool) {
				return b.controller.Image().ScramCredential(user, m)
			},
			Scrams: func() []metadata.ScramCredential { return b.controller.Image().ScramCredentials() },
		},
		Reauthenticate: millis("connections.max.reauth.ms"),
		FailureDelay:   millis("connection.failed.authentication.delay.ms"),
		RequestBytes:   int(image.BrokerConfigInt("sasl.server.max.receive.size", 0)),
		Now:            b.opts.Now,
	}
	for m := range strings.SplitSeq(image.ListenerConfig(spec.name, "sasl.enabled.mechanisms"), ",") {
		if m = strings.TrimSpace(m); m == "GSSAPI" || m == "" {
			continue
		}
		how.SASL.Mechanisms = append(how.SASL.Mechanisms, m)
	}
	if len(how.SASL.Mechanisms) == 0 {
		return nil, errors.New("sasl.enabled.mechanisms has none that is served: PLAIN, " +
			"SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	}
	if slices.Contains(how.SASL.Mechanisms, metadata.MechanismOAuthBearer) {
		how.SASL.Tokens, err = b.tokenRules(ctx, image)
	}
	return how, err
}

// endpoints returns the addresses that clients are told, the first listener's first.
func (b *Broker) endpoints() ([]metadata.Endpoint, error) {
	var list []metadata.Endpoint
	for i, l := range b.listeners {
		address := l.advertised
		if address == "" {
			address = l.Addr().String()
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("take the address of listener %s apart: %w", l.name, err)
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("take the address of listener %s apart: %w", l.name, err)
		}
		if number == 0 { // advertised without one: the port that was taken
			if tcp, ok := l.Addr().(*net.TCPAddr); ok {
				number = int64(tcp.Port)
			}
		}
		if i == 0 && b.opts.AdvertisedHost != "" {
			host = b.opts.AdvertisedHost
		} else if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return nil, fmt.Errorf("clients cannot connect to %q: set the advertised host", host)
		}
		list = append(list, metadata.Endpoint{Listener: l.name, Protocol: l.protocol, Host: host,
			Port: int32(number)})
	}
	return list, nil
}

// authorizer makes what controls access, nil where authorizer.class.name is not set.
func (b *Broker) authorizer() (*auth.Authorizer, error) {
	static := metadata.NewImage(b.opts.NodeID, b.opts.Config)
	if static.BrokerConfigValue("authorizer.class.name") == "" {
		return nil, nil
	}
	superUsers, err := auth.ParseSuperUsers(static.BrokerConfigValue("super.users"))
	if err != nil {
		return nil, fmt.Errorf("super.users: %w", err)
	}
	open := static.BrokerConfigValue("allow.everyone.if.no.acl.found") == "true"
	return auth.NewAuthorizer(superUsers, open), nil
}
