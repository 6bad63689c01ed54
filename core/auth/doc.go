// Package auth says who a client is and what it may do: SASL mechanisms, the names in certificates,
// and the decision by access rules.
//
// # Path
//
// A connection of core/server feeds the tokens of its client to an [Exchange] until that is done,
// or takes the name of the client's certificate through [NameRules]. The [Identity] that comes out
// is asked for with every request: [Authorizer.Allowed].
//
// # Invariants
//
// Nothing here reads a clock, a disk or a socket: time and random bytes are arguments. No token
// panics. A password, a proof or a token is compared in constant time, and never part of an error.
// A user that does not exist is answered like one with a wrong password, after the same work.
// Who is not allowed is denied: by a rule that denies, by no rule that allows, by a name that
// cannot be understood.
//
// # Decision
//
// Rules of the resource's type count whose pattern covers its name, and whose principal and host
// are the client's or "*":
//
//	a super user                     allowed
//	a rule denies                    denied
//	a rule allows, or implies it     allowed   (READ, WRITE, DELETE, ALTER imply DESCRIBE;
//	                                            ALTER_CONFIGS implies DESCRIBE_CONFIGS)
//	no rule speaks of the resource   allow.everyone.if.no.acl.found
//	otherwise                        denied
//
// # Goroutines
//
// None. An Exchange is for one goroutine, an Authorizer for many.
//
// # Files
//
//	principal.go   Identity, super users
//	names.go       certificates' names and ssl.principal.mapping.rules
//	acl.go         the index of rules and the decision; acl_filter.go how they are searched
//	exchange.go    what the mechanisms share; plain.go scram.go oauth.go the mechanisms
package auth
