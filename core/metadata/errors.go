package metadata

import (
	"errors"
	"fmt"
)

// Errors of records and names.
var (
	// ErrUnknownRecord says that a record's type or version is not known, so that this build is
	// older than what wrote it.
	ErrUnknownRecord = errors.New("unknown metadata record")
	// ErrBadRecord says that a record cannot be applied: it is malformed or names what is not there.
	ErrBadRecord = errors.New("bad metadata record")
	// ErrInvalidTopicName says that a topic name breaks the rules of ValidateTopicName.
	ErrInvalidTopicName = errors.New("invalid topic name")
	// ErrReadOnlyConfig says that a broker setting cannot be changed while the broker runs.
	ErrReadOnlyConfig = errors.New("the config cannot be changed while the broker runs")
	// ErrInvalidConfig is what every *ConfigError is.
	ErrInvalidConfig = errors.New("invalid config")
)

// ConfigError says what is wrong with one setting.
type ConfigError struct {
	Name   string // the setting
	Reason string
}

// Error names the setting and the reason.
func (e *ConfigError) Error() string { return fmt.Sprintf("config %s: %s", e.Name, e.Reason) }

// Is makes errors.Is(err, ErrInvalidConfig) true.
func (e *ConfigError) Is(target error) bool { return target == ErrInvalidConfig }
