package server

import "github.com/millstream-io/millstream/core/metadata"

// Grant and Need are rows of accessTable for the tests outside of the package.
type Grant struct {
	Kind metadata.ACLResourceType
	Op   metadata.ACLOperation
}

// Need is what an API asks for.
type Need struct {
	AnyOf []Grant
	Code  int16 // 0: left out
}

// AccessNeeds returns the row of an API.
func AccessNeeds(key int16) ([]Need, bool) {
	row, ok := accessTable[key]
	var needs []Need
	for _, n := range row.needs {
		need := Need{Code: n.code}
		for _, g := range n.anyOf {
			need.AnyOf = append(need.AnyOf, Grant{g.kind, g.op})
		}
		needs = append(needs, need)
	}
	return needs, ok
}
