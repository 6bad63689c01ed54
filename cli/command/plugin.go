package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

func newPluginCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plugin",
		Aliases: []string{"plugins"},
		Short:   "Write, build and list plugins",
	}
	cmd.AddCommand(newPluginNewCommand(a), newPluginBuildCommand(a), newPluginListCommand(a))
	return cmd
}

func newPluginBuildCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Compile a plugin, start it once and say what it offers",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream plugin build ./plugins/punctuality\n" +
			"  millstream plugin build ./plugins/punctuality --out ./punctuality -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pluginBuild(cmd.Context(), args[0], out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "copy the binary here")
	return cmd
}

// pluginInfo is what a plugin says of itself.
type pluginInfo struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind"` // built-in or plugin
	Doc    string     `json:"doc,omitempty"`
	Path   string     `json:"path,omitempty"`
	SHA256 string     `json:"sha256,omitempty"`
	Parts  []partInfo `json:"parts"`
}

type partInfo struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Doc  string `json:"doc,omitempty"`
}

func (a *app) pluginBuild(ctx context.Context, dir, out string) error {
	if _, err := os.Stat(dir); err != nil {
		return cannotRead(dir, err)
	}
	binary, err := host.Build(ctx, dir, host.BuildOptions{})
	if err != nil {
		return explainBuild(dir, err)
	}
	plugin, err := host.Start(ctx, host.Options{Name: filepath.Base(filepath.Clean(dir)),
		Command: host.Command{Path: binary.Path, SHA256: binary.SHA256}})
	if err != nil {
		return output.Failure("PLUGIN_BROKEN", "the plugin was built but does not work").WithCause(err)
	}
	info := describePlugin(plugin.Spec())
	if err := plugin.Close(); err != nil {
		return err
	}
	info.Kind, info.Path, info.SHA256 = "plugin", binary.Path, binary.SHA256
	if out != "" {
		if err := copyBinary(binary.Path, out); err != nil {
			return cannotWrite(out, err)
		}
		info.Path = out
	}
	return output.One(a.printer, info, func(b *strings.Builder) {
		fmt.Fprintf(b, "built %s\n%s\n", info.Path, partList(info))
		fmt.Fprintf(b, "use it, in %s:\n  plugins: {%s: {source: %s}}\n", defaultPipelineFile, info.Name,
			fromPipeline(dir))
		for _, p := range info.Parts {
			if p.Kind == "operator" {
				fmt.Fprintf(b, "  steps:\n    - {id: %s, plugin: {use: %s}}\n", p.Name, info.Name)
			}
		}
	})
}

// fromPipeline is a plugin's folder as the pipeline in the nearest folder above it names it.
func fromPipeline(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for up := filepath.Dir(abs); ; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, defaultPipelineFile)); err == nil {
			return "./" + filepath.ToSlash(strings.TrimPrefix(abs, up+string(filepath.Separator)))
		}
		if up == filepath.Dir(up) {
			return dir
		}
	}
}

func explainBuild(dir string, err error) error {
	var failed *host.BuildError
	if errors.As(err, &failed) {
		return output.Usage("PLUGIN_BUILD", "the plugin in "+dir+" does not compile").
			WithCause(err).WithDo("correct the source and build again")
	}
	if _, lookErr := exec.LookPath("go"); lookErr != nil {
		return output.Environment("NO_TOOLCHAIN", "there is no go command on the PATH").
			WithDo("install Go, plugins in source need it")
	}
	return output.Environment("PLUGIN_BUILD", "the plugin in "+dir+" cannot be built").WithCause(err)
}

func copyBinary(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func describePlugin(spec *pluginpb.SpecResponse) pluginInfo {
	info := pluginInfo{Name: spec.Name, Doc: spec.Doc}
	for _, p := range spec.Parts {
		info.Parts = append(info.Parts, partInfo{Name: p.Name, Doc: p.Doc,
			Kind: strings.ToLower(strings.TrimPrefix(p.Kind.String(), "KIND_"))})
	}
	return info
}

func partList(info pluginInfo) string {
	var parts []string
	for _, p := range info.Parts {
		parts = append(parts, p.Kind+" "+p.Name)
	}
	return strings.Join(parts, ", ")
}

func newPluginListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "ls [DIR]",
		Aliases: []string{"list"},
		Short:   "List the built-in connectors and the plugins below a folder",
		Args:    cobra.MaximumNArgs(1),
		Example: "  millstream plugin ls\n  millstream plugin ls examples/flights -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := builtinPlugins(cmd.Context())
			if err != nil {
				return err
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			found, err := pluginFolders(dir)
			if err != nil {
				return cannotRead(dir, err)
			}
			return output.List(a.printer, append(rows, found...), []output.Column[pluginInfo]{
				{Title: "NAME", Cell: func(p pluginInfo) string { return p.Name }},
				{Title: "KIND", Cell: func(p pluginInfo) string { return p.Kind }},
				{Title: "PARTS", Cell: partList},
				{Title: "PATH", Cell: func(p pluginInfo) string { return p.Path }},
			})
		},
	}
}

func builtinPlugins(ctx context.Context) ([]pluginInfo, error) {
	var rows []pluginInfo
	for _, p := range connectors.Builtin() {
		local, err := sdk.Local(p)
		if err != nil {
			return nil, err
		}
		spec, err := local.Spec(ctx, &pluginpb.SpecRequest{})
		if err != nil {
			return nil, err
		}
		info := describePlugin(spec)
		info.Kind = "built-in"
		rows = append(rows, info)
	}
	return rows, nil
}

// pluginFolders finds folders whose Go program uses the SDK. They are not built.
func pluginFolders(root string) ([]pluginInfo, error) {
	var rows []pluginInfo
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == defaultDataDir || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || d.Name() != "main.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), `millstream/plugins/sdk"`) {
			dir := filepath.Dir(path)
			rows = append(rows, pluginInfo{Name: filepath.Base(dir), Kind: "source", Path: dir})
		}
		return err
	})
	return rows, err
}
