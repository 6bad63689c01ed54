package auth

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"crypto/x509"
	"crypto/x509/pkix"
)

// NameRules turn the name in a client's certificate into that of a user: the value of
// ssl.principal.mapping.rules. The first rule that matches all of the name wins.
type NameRules struct{ rules []nameRule }

// nameRule is RULE:pattern/replacement/[LU], or DEFAULT, which has no pattern and takes the name as
// it is.
type nameRule struct {
	pattern     *regexp.Regexp
	replacement string
	lower       bool
	upper       bool
}

// ParseNameRules reads rules with commas between them. The error is ErrBadRules.
func ParseNameRules(value string) (*NameRules, error) {
	n := &NameRules{}
	rest := strings.TrimSpace(value)
	for rest != "" {
		var rule nameRule
		var err error
		if after, ok := strings.CutPrefix(rest, "DEFAULT"); ok {
			rest = after
		} else if rule, rest, err = parseNameRule(rest); err != nil {
			return nil, err
		}
		n.rules = append(n.rules, rule)
		rest = strings.TrimSpace(rest)
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("mapping rule goes on with %q: %w", rest, ErrBadRules)
		}
		rest = strings.TrimSpace(rest[1:])
	}
	if len(n.rules) == 0 {
		n.rules = []nameRule{{}}
	}
	return n, nil
}

// parseNameRule reads one RULE: off the front of s.
func parseNameRule(s string) (r nameRule, rest string, err error) {
	body, ok := strings.CutPrefix(s, "RULE:")
	if !ok {
		return r, "", fmt.Errorf("mapping rule %q is neither DEFAULT nor RULE: %w", s, ErrBadRules)
	}
	pattern, body, ok := cutUnescaped(body)
	replacement, body, ok2 := cutUnescaped(body)
	if !ok || !ok2 {
		return r, "", fmt.Errorf("mapping rule %q is not RULE:pattern/replacement/: %w", s, ErrBadRules)
	}
	if r.pattern, err = regexp.Compile(`^(?s:` + strings.TrimSpace(pattern) + `)$`); err != nil {
		return r, "", fmt.Errorf("mapping rule %q: %w: %w", s, ErrBadRules, err)
	}
	r.replacement = groupReference.ReplaceAllString(strings.TrimSpace(replacement), `$${$1}`)
	if after, ok := strings.CutPrefix(body, "L"); ok {
		r.lower, body = true, after
	} else if after, ok := strings.CutPrefix(body, "U"); ok {
		r.upper, body = true, after
	}
	return r, body, nil
}

// groupReference is $1 of a Java replacement, which may be followed by letters.
var groupReference = regexp.MustCompile(`\$(\d)`)

// cutUnescaped cuts s at the first slash without a backslash before it.
func cutUnescaped(s string) (before, after string, found bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '/':
			return strings.ReplaceAll(s[:i], `\/`, `/`), s[i+1:], true
		}
	}
	return s, "", false
}

// Name returns the user's name for a certificate's; ok is false if no rule matches, and then the
// client must be refused.
func (n *NameRules) Name(distinguished string) (name string, ok bool) {
	for _, r := range n.rules {
		if r.pattern == nil {
			return distinguished, true
		}
		at := r.pattern.FindStringSubmatchIndex(distinguished)
		if at == nil {
			continue
		}
		name := string(r.pattern.ExpandString(nil, r.replacement, distinguished, at))
		switch {
		case r.lower:
			name = strings.ToLower(name)
		case r.upper:
			name = strings.ToUpper(name)
		}
		return name, name != ""
	}
	return "", false
}

// DistinguishedName returns the subject of a certificate as RFC 2253 writes it and Java prints it:
// the last part first, CN=alice,OU=ops,O=Example. The order is that of the certificate.
func DistinguishedName(c *x509.Certificate) (string, error) {
	var parts pkix.RDNSequence
	if rest, err := asn1.Unmarshal(c.RawSubject, &parts); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("read the certificate's subject: %w", ErrBadRules)
	}
	var text strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		for j, part := range parts[i] {
			if j > 0 {
				text.WriteByte('+')
			}
			text.WriteString(attribute(part))
		}
	}
	return text.String(), nil
}

// keywords are the attributes that RFC 2253 has names for.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
	"2.5.4.6": "C", "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC",
	"0.9.2342.19200300.100.1.1": "UID",
}

func attribute(a pkix.AttributeTypeAndValue) string {
	oid := a.Type.String()
	value, isText := a.Value.(string)
	if word, ok := keywords[oid]; ok && isText && utf8.ValidString(value) {
		return word + "=" + escape2253(value)
	}
	der, err := asn1.Marshal(a.Value)
	if err != nil {
		return oid + "=#"
	}
	return oid + "=#" + hex.EncodeToString(der)
}

// escape2253 escapes what would be taken for the end of a value.
func escape2253(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune(`,+"\<>;`, r), i == 0 && (r == '#' || r == ' '),
			i == len(s)-1 && r == ' ':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
