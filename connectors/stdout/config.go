package stdout

import "github.com/millstream-io/millstream/plugins/sdk"

// Config configures the sink.
type Config struct {
	Format string `json:"format" enum:"value,record" default:"value" doc:"value alone, or all of it"`
}

// Plugin is the connector.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "stdout", Version: sdk.Version, Doc: "Prints records on standard output.",
		Parts: []sdk.Part{
			sdk.NewSink("sink", func() sdk.SinkWriter[Config] { return &sink{} }).
				WithDoc("one JSON value a line"),
		},
	}
}
