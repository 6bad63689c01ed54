package auth

import (
	"fmt"
	"strings"
)

// UserType is the type of the principals that log in.
const UserType = "User"

// Anonymous is the name of a client that did not log in.
const Anonymous = "ANONYMOUS"

// Identity is who sends a request, and from where.
type Identity struct {
	// Principal is "User:name".
	Principal string
	// Host is the address of the client, without a port.
	Host string
}

// User returns the principal of a user's name.
func User(name string) string { return UserType + ":" + name }

// ParseSuperUsers reads the value of super.users: principals with ';' between them. The error is
// ErrBadRules.
func ParseSuperUsers(value string) (map[string]bool, error) {
	users := make(map[string]bool)
	for user := range strings.SplitSeq(value, ";") {
		if user = strings.TrimSpace(user); user == "" {
			continue
		}
		typ, name, ok := strings.Cut(user, ":")
		if !ok || typ == "" || name == "" {
			return nil, fmt.Errorf("super user %q is not Type:name: %w", user, ErrBadRules)
		}
		users[user] = true
	}
	return users, nil
}
