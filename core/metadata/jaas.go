package metadata

import (
	"fmt"
	"strings"
)

// plainModule is the login module of which ParseJaasUsers reads the options.
const plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"

// ParseJaasUsers reads the users of a JAAS line as Kafka's brokers have it:
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" ... ;
//
// Options that do not begin with user_ are what a broker says of itself; they are left out. The
// error never quotes what may be a password.
func ParseJaasUsers(line string) (map[string]string, error) {
	line = strings.TrimSpace(line)
	if line == "" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(line, plainModule)
	if !ok {
		return nil, &ConfigError{Name: "sasl.jaas.config",
			Reason: "it does not begin with " + plainModule}
	}
	rest = strings.TrimSpace(rest)
	flag, rest, _ := strings.Cut(rest, " ")
	if strings.TrimSuffix(flag, ";") != "required" {
		return nil, &ConfigError{Name: "sasl.jaas.config",
			Reason: "the module is not followed by \"required\""}
	}
	users := make(map[string]string)
	for {
		rest = strings.TrimSpace(rest)
		if rest == "" || rest == ";" {
			return users, nil
		}
		key, value, after, err := jaasOption(rest)
		if err != nil {
			return nil, err
		}
		if user, ok := strings.CutPrefix(key, "user_"); ok {
			users[user] = value
		}
		rest = after
	}
}

// jaasOption reads key=value or key="value" off the front of s.
func jaasOption(s string) (key, value, rest string, err error) {
	bad := func(what string) error {
		return &ConfigError{Name: "sasl.jaas.config", Reason: fmt.Sprintf("option %q: %s", key, what)}
	}
	key, s, ok := strings.Cut(s, "=")
	if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, " \"") {
		key = ""
		return "", "", "", bad("an option is not name=value")
	}
	if s = strings.TrimLeft(s, " \t\r\n"); !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t\r\n;")
		if end < 0 {
			end = len(s)
		}
		return key, s[:end], s[end:], nil
	}
	var text strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return key, text.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", "", bad("it ends with a backslash")
			}
		}
		text.WriteByte(s[i])
	}
	return "", "", "", bad("the quote is not closed")
}
