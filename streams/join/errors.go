package join

import "errors"

// ErrNoMatch reports a record whose key is not in the table.
var ErrNoMatch = errors.New("no row in table")

// ErrInvalid reports options that make no sense.
var ErrInvalid = errors.New("invalid join")

// errRow reports a row of a store that this package did not write.
var errRow = errors.New("malformed row of a join")

// ClassNoMatch is the class of ErrNoMatch.
const ClassNoMatch = "join_missing"
