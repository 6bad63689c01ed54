// Package connectors lists the connectors that are compiled into the binary. Each runs as a plugin
// like any other: the host starts the binary again as the process of the connector.
//
// # Path
//
// A pipeline names a connector; the host starts host.Self with the arguments of the hidden command,
// which calls sdk.ServeBuiltin with [Builtin]. What the connector does is in its own package.
//
// # Invariants
//
// A connector imports the SDK and nothing of the host. Its source is named like it, and so is
// its sink.
//
// # Files
//
// builtin.go; file, generate and stdout are the connectors. DESIGN.md says how each keeps its
// promise.
package connectors
