package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/plan"
)

// graphFormats are what `pipeline graph` draws.
var graphFormats = map[string]func(*plan.Graph) string{
	"dot": (*plan.Graph).DOT, "mermaid": (*plan.Graph).Mermaid, "svg": (*plan.Graph).SVG,
}

func newPipelineGraphCommand(a *app) *cobra.Command {
	var vars []string
	var format string
	cmd := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a pipeline: dot, mermaid or svg",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream pipeline graph examples/flights --format svg > flights.svg\n" +
			"  millstream pipeline graph flights --format mermaid",
		RunE: func(cmd *cobra.Command, args []string) error {
			draw := graphFormats[format]
			if draw == nil {
				return output.Usage("BAD_FORMAT", fmt.Sprintf("%q is not a form of graphs", format)).
					WithDo("one of dot, mermaid, svg")
			}
			p, err := a.anyPlan(cmd, args[0], vars)
			if err != nil {
				return err
			}
			if a.printer.Machine() {
				return output.One(a.printer, p.Graph(), nil)
			}
			_, err = fmt.Fprint(a.streams.Out, draw(p.Graph()))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&vars, "var", nil, "value of a variable, name=value")
	cmd.Flags().StringVar(&format, "format", "dot", "dot, mermaid or svg")
	return cmd
}

func newPipelineExplainCommand(a *app) *cobra.Command {
	var vars []string
	cmd := &cobra.Command{
		Use:   "explain FILE|NAME",
		Short: "Say what a pipeline makes, keeps and promises: topics, state, guarantees, determinism",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream pipeline explain examples/flights\n" +
			"  millstream pipeline explain flights",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.anyPlan(cmd, args[0], vars)
			if err != nil {
				return err
			}
			return a.one(explanation{Pipeline: p.Pipeline, Text: p.Explain()},
				func(b *strings.Builder, _ *output.Printer) error {
					b.WriteString(p.Explain())
					return nil
				})
		},
	}
	cmd.Flags().StringArrayVar(&vars, "var", nil, "value of a variable, name=value")
	return cmd
}

// explanation is what explain prints for machines.
type explanation struct {
	Pipeline string `json:"pipeline"`
	Text     string `json:"text"`
}

// anyPlan compiles a file, or what is applied under a name when there is no such file.
func (a *app) anyPlan(cmd *cobra.Command, where string, vars []string) (*plan.Plan, error) {
	if _, err := os.Stat(where); !errors.Is(err, fs.ErrNotExist) {
		p, err := a.compiled(where, vars)
		if err != nil {
			return nil, err
		}
		return p.plan, nil
	}
	running, err := a.runningPlan(cmd, where)
	if err != nil {
		return nil, err
	}
	if running == nil {
		return nil, output.Usage("UNKNOWN_PIPELINE",
			fmt.Sprintf("there is no file and no applied pipeline %q", where)).
			WithDo("millstream pipeline ls lists those applied to the cluster")
	}
	return running, nil
}
