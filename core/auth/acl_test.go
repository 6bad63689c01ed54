package auth_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
)

// rules applies access rules to an image.
func rules(t testing.TB, list ...metadata.ACL) *metadata.ACLs {
	d := metadata.NewDelta(metadata.NewImage(1, nil))
	for _, a := range list {
		require.NoError(t, d.Apply(&metadata.ACLRecord{ACL: a}))
	}
	return d.Image(1).ACLs()
}

func allow(op metadata.ACLOperation, pattern metadata.ACLPatternType, name string) metadata.ACL {
	return metadata.ACL{ResourceType: metadata.ACLTopic, Name: name, Pattern: pattern,
		Principal: "User:alice", Host: "*", Operation: op, Permission: metadata.ACLAllow}
}

func deny(a metadata.ACL) metadata.ACL {
	a.Permission = metadata.ACLDeny
	return a
}

func by(a metadata.ACL, principal, host string) metadata.ACL {
	a.Principal, a.Host = principal, host
	return a
}

// The rules of Kafka's documentation, "Authorization and ACLs" and KIP-290.
func TestDecision(t *testing.T) {
	const read, write, describe, all = metadata.ACLRead, metadata.ACLWrite, metadata.ACLDescribe,
		metadata.ACLAll
	const literal, prefixed = metadata.ACLLiteral, metadata.ACLPrefixed
	for _, c := range []struct {
		name  string
		rules []metadata.ACL
		op    metadata.ACLOperation
		topic string
		want  bool
	}{
		{"no rules", nil, read, "t", false},
		{"literal", []metadata.ACL{allow(read, literal, "t")}, read, "t", true},
		{"literal is no prefix", []metadata.ACL{allow(read, literal, "t")}, read, "tt", false},
		{"prefix", []metadata.ACL{allow(read, prefixed, "t")}, read, "tt", true},
		{"prefix of itself", []metadata.ACL{allow(read, prefixed, "t")}, read, "t", true},
		{"longer prefix", []metadata.ACL{allow(read, prefixed, "tt")}, read, "t", false},
		{"star", []metadata.ACL{allow(read, literal, "*")}, read, "t", true},
		{"a prefix of * is no star", []metadata.ACL{allow(read, prefixed, "*")}, read, "t", false},
		{"another operation", []metadata.ACL{allow(read, literal, "t")}, write, "t", false},
		{"all", []metadata.ACL{allow(all, literal, "t")}, write, "t", true},
		{"read implies describe", []metadata.ACL{allow(read, literal, "t")}, describe, "t", true},
		{"describe implies nothing", []metadata.ACL{allow(describe, literal, "t")}, read, "t", false},
		{"deny wins", []metadata.ACL{allow(all, literal, "t"), deny(allow(read, prefixed, "t"))}, read,
			"t", false},
		{"deny read leaves write", []metadata.ACL{allow(all, literal, "t"),
			deny(allow(read, literal, "t"))}, write, "t", true},
		{"deny read leaves describe", []metadata.ACL{allow(write, literal, "t"),
			deny(allow(read, literal, "t"))}, describe, "t", true},
		{"deny all", []metadata.ACL{allow(all, literal, "t"), deny(allow(all, literal, "*"))}, describe,
			"t", false},
		{"deny everybody", []metadata.ACL{allow(all, literal, "t"),
			deny(by(allow(all, literal, "t"), "User:*", "*"))}, read, "t", false},
		{"another user", []metadata.ACL{by(allow(read, literal, "t"), "User:bob", "*")}, read, "t",
			false},
		{"everybody", []metadata.ACL{by(allow(read, literal, "t"), "User:*", "*")}, read, "t", true},
		{"another type", []metadata.ACL{by(allow(read, literal, "t"), "Group:alice", "*")}, read, "t",
			false},
		{"this host", []metadata.ACL{by(allow(read, literal, "t"), "User:alice", "10.0.0.1")}, read,
			"t", true},
		{"another host", []metadata.ACL{by(allow(read, literal, "t"), "User:alice", "10.0.0.2")}, read,
			"t", false},
	} {
		a := auth.NewAuthorizer(map[string]bool{"User:root": true}, false)
		who := auth.Identity{Principal: "User:alice", Host: "10.0.0.1"}
		acls := rules(t, c.rules...)
		require.Equal(t, c.want, a.Allowed(acls, who, c.op, metadata.ACLTopic, c.topic), c.name)
		require.False(t, a.Allowed(acls, who, c.op, metadata.ACLGroup, c.topic), c.name)
		who.Principal = "User:root"
		require.True(t, a.Allowed(acls, who, c.op, metadata.ACLTopic, c.topic), c.name)
	}
}

func TestAllowEveryoneIsForWhatNoRuleSpeaksOf(t *testing.T) {
	a := auth.NewAuthorizer(nil, true)
	who := auth.Identity{Principal: "User:alice", Host: "h"}
	acls := rules(t, by(allow(metadata.ACLRead, metadata.ACLLiteral, "t"), "User:bob", "*"))
	require.True(t, a.Allowed(acls, who, metadata.ACLRead, metadata.ACLTopic, "u"))
	require.False(t, a.Allowed(acls, who, metadata.ACLRead, metadata.ACLTopic, "t"))
}

func TestAllowedOnAny(t *testing.T) {
	const w = metadata.ACLWrite
	for _, c := range []struct {
		name  string
		rules []metadata.ACL
		want  bool
	}{
		{"none", nil, false},
		{"one", []metadata.ACL{allow(w, metadata.ACLLiteral, "t")}, true},
		{"read only", []metadata.ACL{allow(metadata.ACLRead, metadata.ACLLiteral, "t")}, false},
		{"denied again", []metadata.ACL{allow(w, metadata.ACLLiteral, "t"),
			deny(allow(w, metadata.ACLPrefixed, "t"))}, false},
		{"another denied", []metadata.ACL{allow(w, metadata.ACLLiteral, "t"),
			deny(allow(w, metadata.ACLPrefixed, "u"))}, true},
		{"prefix denied by a shorter one", []metadata.ACL{allow(w, metadata.ACLPrefixed, "ab"),
			deny(allow(w, metadata.ACLPrefixed, "a"))}, false},
		{"part of a prefix denied", []metadata.ACL{allow(w, metadata.ACLPrefixed, "a"),
			deny(allow(w, metadata.ACLPrefixed, "ab"))}, true},
		{"all denied", []metadata.ACL{allow(w, metadata.ACLLiteral, "t"),
			deny(allow(metadata.ACLAll, metadata.ACLLiteral, "*"))}, false},
	} {
		a := auth.NewAuthorizer(nil, false)
		who := auth.Identity{Principal: "User:alice", Host: "h"}
		require.Equal(t, c.want, a.AllowedOnAny(rules(t, c.rules...), who, w, metadata.ACLTopic), c.name)
	}
}

// The examples of Kafka's documentation, "Customizing SSL User Name".
func TestNameRulesOfTheDocumentation(t *testing.T) {
	const text = `RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),` +
		`ST=(.*?),C=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT`
	n, err := auth.ParseNameRules(text)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown": "serviceuser",
		"CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown":          "adminuser@admin",
		"cn=JohnDoe, ou=x": "johndoe", "O=Example": "O=Example",
	} {
		got, ok := n.Name(name)
		require.True(t, ok, name)
		require.Equal(t, want, got)
	}
	strict, err := auth.ParseNameRules(`RULE:^CN=([a-z]+)$/$1/U`)
	require.NoError(t, err)
	got, ok := strict.Name("CN=alice")
	require.True(t, ok)
	require.Equal(t, "ALICE", got)
	loose, err := auth.ParseNameRules(`RULE:CN=([a-z]+)/$1/`)
	require.NoError(t, err)
	_, ok = loose.Name("CN=alice,O=Example")
	require.False(t, ok)
	_, ok = strict.Name("CN=alice,CN=admin")
	require.False(t, ok, "a rule matches the whole name or nothing")
	for _, bad := range []string{"RULE:x", "RULE:x/y", "RULE:(/x/", "nonsense", "DEFAULT DEFAULT"} {
		_, err := auth.ParseNameRules(bad)
		require.ErrorIs(t, err, auth.ErrBadRules, bad)
	}
}

func TestDistinguishedNameIsThatOfTheCertificate(t *testing.T) {
	subject, err := asn1.Marshal(pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 6}, Value: "US"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "Example, Inc"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "alice"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 5}, Value: "7"}},
	})
	require.NoError(t, err)
	name, err := auth.DistinguishedName(&x509.Certificate{RawSubject: subject})
	require.NoError(t, err)
	// RFC 2253: last part first, a comma escaped, an attribute without keyword by its number.
	require.Equal(t, `2.5.4.5=#130137,CN=alice,O=Example\, Inc,C=US`, name)
}

func TestFilters(t *testing.T) {
	acls := rules(t, allow(metadata.ACLRead, metadata.ACLLiteral, "ab"),
		allow(metadata.ACLRead, metadata.ACLPrefixed, "a"),
		allow(metadata.ACLRead, metadata.ACLLiteral, "*"))
	name := "ab"
	pick := func(p metadata.ACLPatternType) (names []string) {
		f := auth.Filter{ResourceType: metadata.ACLAnyResource, Name: &name, Pattern: p,
			Operation: metadata.ACLAnyOperation, Permission: metadata.ACLAnyPermission}
		require.True(t, f.Valid())
		for _, a := range f.Pick(acls) {
			names = append(names, a.Name)
		}
		return names
	}
	require.Equal(t, []string{"ab"}, pick(metadata.ACLLiteral))
	require.Equal(t, []string{"ab"}, pick(metadata.ACLAnyPattern))
	require.Equal(t, []string{"*", "a", "ab"}, pick(metadata.ACLMatch))
	require.Empty(t, pick(metadata.ACLPrefixed))
	require.False(t, (&auth.Filter{}).Valid())
}

func BenchmarkAllowed(b *testing.B) {
	var list []metadata.ACL
	for i := range 1000 {
		list = append(list, allow(metadata.ACLRead, metadata.ACLLiteral, "topic-"+string(rune('a'+i%26))))
	}
	acls := rules(b, append(list, allow(metadata.ACLRead, metadata.ACLPrefixed, "top"))...)
	a := auth.NewAuthorizer(nil, false)
	who := auth.Identity{Principal: "User:alice", Host: "10.0.0.1"}
	b.ReportAllocs()
	for b.Loop() {
		a.Allowed(acls, who, metadata.ACLRead, metadata.ACLTopic, "topic-b")
	}
}
