// Package plugins holds what lets code of others run inside a pipeline, in a process of its own.
//
// # Path
//
// An author writes a function against sdk and builds a binary; host starts it, keeps it running and
// exchanges packed frames of records with it; pluginpb is what goes over the wire between them;
// plugintest proves a binary from outside. DESIGN.md tells the journey of a batch and why.
//
// # Invariants
//
// A plugin can end, hang or answer nonsense at any moment: the host loses no record, keeps the
// order, and says which plugin it was.
//
// # Files
//
// pluginpb, sdk, host, plugintest.
package plugins
