// Package plan turns a checked pipeline into what runs: topics, nodes, stores and programs.
//
// # Path
//
// Build walks the check.Result once in the order records flow (build.go). Where a join or an
// aggregate needs another key than the record has, it inserts a node that moves the records
// through a repartition topic; such a topic ends a sub-topology (split.go). Then it says what
// each sink guarantees and how deterministic the whole is (guarantee.go), and fingerprints every
// node (fingerprint.go). Diff compares two plans (diff.go). String is the text of
// `pipeline plan` (render.go).
//
// # Invariants
//
// A Plan is data and compiled programs; nothing in it opens or starts anything, and it is not
// changed after Build. Two plans with equal Fingerprint do the same. A node's State fingerprint
// covers exactly what its stored state depends on. Neither has a secret in it.
//
// # Files
//
// plan.go (the types), build.go, aggregate.go, join.go, table.go (steps over tables), split.go,
// guarantee.go, fingerprint.go, diff.go, render.go, explain.go, graph.go.
package plan
