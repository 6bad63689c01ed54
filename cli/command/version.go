package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
)

// version of this build; releases set it with -ldflags "-X …/command.version=v1.2.3".
var version = "dev"

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Args:    cobra.NoArgs,
		Example: "  millstream version\n  millstream version -o json",
		RunE: func(*cobra.Command, []string) error {
			info := buildInfo()
			return output.One(a.printer, info, func(b *strings.Builder) {
				fmt.Fprintf(b, "millstream %s (%s, %s)\n", info.Version, info.Go, info.Platform)
			})
		},
	}
}

func buildInfo() versionInfo {
	info := versionInfo{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				info.Revision = s.Value
			}
		}
	}
	return info
}
