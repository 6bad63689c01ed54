package metadata

import "errors"

// Errors of records and names. Those that begin with a capital are how Kafka says it: people search
// for these texts.
var (
	// ErrUnknownRecord says that a record's type or version is not known, so that this build is
	// older than what wrote it.
	ErrUnknownRecord = errors.New("unknown metadata record")
	// ErrBadRecord says that a record cannot be applied: it is malformed or names what is not there.
	ErrBadRecord = errors.New("bad metadata record")
	// ErrInvalidTopicName says that a topic name breaks the rules of ValidateTopicName.
	ErrInvalidTopicName = errors.New("Topic name is invalid")
	// ErrReadOnlyConfig says that a broker setting cannot be changed while the broker runs.
	//lint:ignore ST1005 Kafka writes it so
	ErrReadOnlyConfig = errors.New("Cannot update these configs dynamically")
	// ErrInvalidConfig is what every *ConfigError is.
	ErrInvalidConfig = errors.New("invalid config")
)

// ConfigError says what is wrong with one setting.
type ConfigError struct {
	Name   string // the setting
	Reason string // a whole sentence that names it, in Kafka's words where it has some
}

// Error returns the reason.
func (e *ConfigError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrInvalidConfig) true.
func (e *ConfigError) Is(target error) bool { return target == ErrInvalidConfig }
