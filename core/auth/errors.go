package auth

import "errors"

// Errors of an Exchange. The client gets SASL_AUTHENTICATION_FAILED for all of them.
var (
	// ErrInvalidCredentials says that the user is not known or the password is wrong; never which.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrBadToken says that a client's token does not follow the mechanism.
	ErrBadToken = errors.New("malformed SASL token")
	// ErrAuthorizationID says that a client wants to be somebody else than it proved to be.
	ErrAuthorizationID = errors.New("authorization id differs from the user")
)

// ErrBadRules says that mapping rules or super users cannot be understood.
var ErrBadRules = errors.New("bad rules")
