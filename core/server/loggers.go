package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// LogLevels are the levels of this node's loggers, in Kafka's words.
type LogLevels interface {
	// Levels returns the level of each logger.
	Levels() map[string]string
	// Set changes a level; "" gives the logger that of root again.
	Set(logger, level string)
}

// logLevels are the levels that a logger can have (Kafka's LogLevelConfig).
var logLevels = []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"}

// rootLogger is the logger whose level all have that were not given one.
const rootLogger = "root"

// isThisBroker refuses the name of any other broker's loggers.
func (s *Server) isThisBroker(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil || int32(id) != s.nodeID {
		return fmt.Errorf("%w: the loggers of broker %q are known to that broker only; this one is %d",
			controller.ErrInvalidRequest, name, s.nodeID)
	}
	return nil
}

// loggerConfigs returns the loggers with their levels, by name.
func (s *Server) loggerConfigs() []metadata.ConfigValue {
	if s.opts.LogLevels == nil {
		return nil
	}
	var values []metadata.ConfigValue
	for name, level := range s.opts.LogLevels.Levels() {
		values = append(values, metadata.ConfigValue{
			Def:   &metadata.ConfigDef{Name: name, Doc: "Level of the logger " + name + "."},
			Value: level, Source: metadata.SourceBrokerLogger,
		})
	}
	slices.SortFunc(values, func(a, b metadata.ConfigValue) int {
		return strings.Compare(a.Def.Name, b.Def.Name)
	})
	return values
}

// alterLoggers changes the levels that a resource of the request names, all or none.
func (s *Server) alterLoggers(req *kmsg.IncrementalAlterConfigsRequest, at int) error {
	r := &req.Resources[at]
	if err := s.isThisBroker(r.ResourceName); err != nil {
		return err
	}
	for i := range req.Resources {
		if i != at && req.Resources[i].ResourceType == r.ResourceType &&
			req.Resources[i].ResourceName == r.ResourceName {
			return fmt.Errorf("%w: the loggers of broker %s are in the request more than once",
				controller.ErrInvalidRequest, r.ResourceName)
		}
	}
	seen := make(map[string]bool)
	for i := range r.Configs {
		if err := s.checkLogger(&r.Configs[i], seen); err != nil {
			return err
		}
	}
	for i := range r.Configs {
		if req.ValidateOnly {
			break
		}
		level := ""
		if r.Configs[i].Op == kmsg.IncrementalAlterConfigOpSet {
			level = *r.Configs[i].Value
		}
		s.opts.LogLevels.Set(r.Configs[i].Name, level)
		s.log.Warn("log level changed by an administrator", "logger", r.Configs[i].Name,
			"level", level)
	}
	return nil
}

func (s *Server) checkLogger(
	c *kmsg.IncrementalAlterConfigsRequestResourceConfig, seen map[string]bool,
) error {
	known := false
	if s.opts.LogLevels != nil {
		_, known = s.opts.LogLevels.Levels()[c.Name]
	}
	switch {
	case seen[c.Name]:
		return fmt.Errorf("%w: logger %q is changed more than once", controller.ErrInvalidRequest,
			c.Name)
	case c.Op != kmsg.IncrementalAlterConfigOpSet && c.Op != kmsg.IncrementalAlterConfigOpDelete:
		return fmt.Errorf("%w: a level is no list, it can only be set",
			controller.ErrInvalidRequest)
	case c.Op == kmsg.IncrementalAlterConfigOpSet && c.Value == nil:
		return fmt.Errorf("%w: logger %q gets no level", controller.ErrInvalidRequest, c.Name)
	case !known:
		return &metadata.ConfigError{Name: c.Name, Reason: "there is no logger " + c.Name}
	case c.Op == kmsg.IncrementalAlterConfigOpSet && !slices.Contains(logLevels, *c.Value):
		return &metadata.ConfigError{Name: c.Name, Reason: fmt.Sprintf(
			"Invalid value %s for configuration %s: String must be one of: %s", *c.Value, c.Name,
			strings.Join(logLevels, ", "))}
	case c.Op == kmsg.IncrementalAlterConfigOpDelete && c.Name == rootLogger:
		return fmt.Errorf("%w: root must have a level", controller.ErrInvalidRequest)
	}
	seen[c.Name] = true
	return nil
}
