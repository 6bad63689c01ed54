package file

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Formats of files.
const (
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
	formatLines  = "lines"
)

// SourceConfig configures the source.
type SourceConfig struct {
	Path   string `json:"path" required:"true" min:"1" doc:"file to read; .gz is unpacked"`
	Format string `json:"format" enum:"ndjson,csv,lines" doc:"by the file's extension when not given"`
	Follow bool   `json:"follow" default:"false" doc:"wait for more at the end of the file"`

	Poll       time.Duration `json:"poll" default:"200ms" min:"10ms" max:"1m" doc:"pause between looks"`
	EmptyLines string        `json:"empty_lines" enum:"error,skip" default:"error"`
	MaxLine    int           `json:"max_line_bytes" default:"16777216" min:"16" max:"33554432"`

	Delimiter string            `json:"delimiter" default:"," min:"1" max:"1" doc:"csv: between fields"`
	Types     map[string]string `json:"types" doc:"csv: column to string, number or bool"`
}

// Validate checks what needs several fields at once.
func (c *SourceConfig) Validate() error {
	var errs []error
	if c.Follow && strings.HasSuffix(c.Path, ".gz") {
		errs = append(errs, sdk.At("/follow", "a .gz file cannot be followed"))
	}
	for column, t := range c.Types {
		if t != "string" && t != "number" && t != "bool" {
			errs = append(errs, sdk.At("/types/"+column, "%q is not one of string, number, bool", t))
		}
	}
	if len(c.Types) > 0 && c.format() != formatCSV {
		errs = append(errs, sdk.At("/types", "only csv has columns"))
	}
	return errors.Join(errs...)
}

func (c *SourceConfig) format() string {
	if c.Format != "" {
		return c.Format
	}
	return formatOf(strings.TrimSuffix(c.Path, ".gz"), formatLines)
}

// SinkConfig configures the sink.
type SinkConfig struct {
	Path    string   `json:"path" required:"true" min:"1" doc:"file to append to"`
	Format  string   `json:"format" enum:"ndjson,csv" doc:"by the file's extension when not given"`
	Columns []string `json:"columns" doc:"csv: those of the first record when not given"`
}

// Validate checks what needs several fields at once.
func (c *SinkConfig) Validate() error {
	if len(c.Columns) > 0 && c.format() != formatCSV {
		return sdk.At("/columns", "only csv has columns")
	}
	return nil
}

func (c *SinkConfig) format() string {
	if c.Format != "" {
		return c.Format
	}
	return formatOf(c.Path, formatNDJSON)
}

// formatOf reads the format off a file's extension.
func formatOf(path, otherwise string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".ndjson", ".jsonl", ".json":
		return formatNDJSON
	case ".csv":
		return formatCSV
	}
	return otherwise
}

// Plugin is the connector.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "file", Version: sdk.Version, Doc: "Reads records from a file and appends records to one.",
		Parts: []sdk.Part{
			sdk.NewSource("source", func() sdk.SourceReader[SourceConfig, Position] { return &source{} }).
				WithDoc("ndjson, csv or lines of a file, once or as it grows"),
			sdk.NewSink("sink", func() sdk.SinkWriter[SinkConfig] { return &sink{} }).
				WithDoc("appends ndjson or csv, each record exactly once").Exactly(),
		},
	}
}
