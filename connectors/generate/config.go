package generate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Config configures the source.
type Config struct {
	Seed   int64         `json:"seed" default:"1" doc:"another seed, other records"`
	Count  int64         `json:"count" default:"0" min:"0" doc:"how many records; 0 is without end"`
	Rate   float64       `json:"rate" default:"0" min:"0" doc:"records a second; 0 is no limit"`
	Start  string        `json:"start" default:"2026-01-01T00:00:00Z" doc:"time of record 0"`
	Step   time.Duration `json:"step" default:"1s" min:"0s" doc:"time from one record to the next"`
	Fields []Field       `json:"fields" doc:"members of the value; an id and a time when not given"`
}

// Field says how one member of the value is made.
type Field struct {
	Name string `json:"name" required:"true" min:"1" doc:"name of the member"`

	Type string `json:"type" required:"1" enum:"sequence,int,float,bool,string,uuid,time,choice,const"`

	Min    float64  `json:"min" default:"0" doc:"int, float: least value"`
	Max    float64  `json:"max" default:"100" doc:"int, float: greatest value"`
	Length int      `json:"length" default:"8" min:"0" max:"1048576" doc:"string: number of letters"`
	Values []string `json:"values" doc:"choice: one of them; const: the first"`
}

// defaultFields are those of a configuration without fields.
var defaultFields = []Field{
	{Name: "id", Type: "sequence"}, {Name: "at", Type: "time"},
	{Name: "value", Type: "int", Max: 100},
}

// Validate checks what a schema cannot say.
func (c *Config) Validate() error {
	var errs []error
	if _, err := time.Parse(time.RFC3339, c.Start); err != nil {
		errs = append(errs, sdk.At("/start", "%q is not an RFC 3339 time", c.Start))
	}
	seen := map[string]bool{}
	for i, f := range c.Fields {
		at := fmt.Sprintf("/fields/%d", i)
		switch {
		case seen[f.Name]:
			errs = append(errs, sdk.At(at+"/name", "field %q is there twice", f.Name))
		case (f.Type == "choice" || f.Type == "const") && len(f.Values) == 0:
			errs = append(errs, sdk.At(at+"/values", "is required for %s", f.Type))
		case strings.Contains("int float", f.Type) && f.Max < f.Min:
			errs = append(errs, sdk.At(at+"/max", "%v is below min %v", f.Max, f.Min))
		}
		seen[f.Name] = true
	}
	return errors.Join(errs...)
}

// Plugin is the connector.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "generate", Version: sdk.Version, Doc: "Makes up records, the same for the same seed.",
		Parts: []sdk.Part{
			sdk.NewSource("source", func() sdk.SourceReader[Config, Position] { return &source{} }).
				WithDoc("JSON objects made from a seed, at a rate"),
		},
	}
}
