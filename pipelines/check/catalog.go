package check

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/pipelines/expression"
)

// ErrUnknown is what a Catalog returns for a connector or operator that does not exist.
var ErrUnknown = errors.New("unknown")

// NoSourceError is what a Catalog returns for a plugin whose folder is not there.
type NoSourceError struct {
	Source string // as the file has it
	Near   string // a source that is there and called nearly so, or ""
}

// Error implements error.
func (e *NoSourceError) Error() string { return fmt.Sprintf("there is no folder %s", e.Source) }

// Role is what a connector is used for.
type Role uint8

// The roles.
const (
	RoleSource Role = iota
	RoleSink
)

// String is the role in a message.
func (r Role) String() string { return [...]string{"source", "sink"}[r] }

// Catalog knows the connectors and plugins at hand. A nil Catalog knows nothing, and nothing is
// checked against it.
type Catalog interface {
	// Connector describes a connector. The error is ErrUnknown when there is none of that name.
	Connector(name string, role Role) (*Component, error)
	// Connectors lists the connectors for a role, for a did-you-mean.
	Connectors(role Role) []string
	// Operator describes an operator of a plugin; an empty operator is the plugin's only one. The
	// error is ErrUnknown when the plugin has none of that name. A nil Component without an error
	// means that the plugin cannot be asked now, as before it is built.
	Operator(plugin PluginRef, operator string) (*Component, error)
}

// PluginRef is a declared plugin.
type PluginRef struct {
	Alias string
	// Source is what the file says: a folder of Go source, relative to the file, or a name.
	Source string
}

// Component is a connector or operator as far as a pipeline needs to know it.
type Component struct {
	// ConfigSchema is the JSON Schema (draft 2020-12) of config:. nil: anything goes.
	ConfigSchema json.RawMessage
	// Validate is the component's own check of a config, run after the schema found nothing.
	Validate func(config []byte) []Diagnostic
	// Deterministic says that the same input gives the same output, always.
	Deterministic bool
	// Timers and WallTimers say, of an operator, that it sets timers, and some of them of the
	// machine's clock.
	Timers, WallTimers bool
	// Exact says, of a sink connector, that after a crash it writes exactly what is missing.
	Exact bool
	// Output is the type of an operator's output value; nil is not known.
	Output *expression.Type
}

// Diagnostic is one fault of a config.
type Diagnostic struct {
	// Pointer is the JSON pointer (RFC 6901) of the faulty value.
	Pointer string
	Message string
	Hint    string
	Warning bool
}
