package command

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
)

//go:embed templates
var templates embed.FS

// modulePath is the module that plugins import.
const modulePath = "github.com/millstream-io/millstream"

// scaffoldName is what pipelines and plugins may both be called; replayName is what a pipeline may
// be.
var (
	scaffoldName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	replayName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

func newPipelineInitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "init DIR",
		Short:   "Write a first pipeline into a folder",
		Args:    cobra.ExactArgs(1),
		Example: "  millstream pipeline init warm\n  millstream pipeline init ./pipelines/warm",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			name, err := nameOf(dir)
			if err != nil {
				return err
			}
			file := filepath.Join(dir, defaultPipelineFile)
			data := map[string]string{"Name": name, "Dir": dir}
			if err := writeTemplate("pipeline/pipeline.yaml.tmpl", file, data); err != nil {
				return err
			}
			return a.printer.Done(written{name, []string{file}},
				"wrote %s\nnext  millstream dev %s", file, dir)
		},
	}
}

var pluginKinds = []string{"map", "filter", "flatmap"}

func newPluginNewCommand(a *app) *cobra.Command {
	var kind, sdkDir string
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Write a first operator plugin in Go into a folder",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream plugin new ./plugins/fraud\n" +
			"  millstream plugin new ./plugins/keep-big --kind filter",
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(pluginKinds, kind) {
				return output.Usage("BAD_KIND", fmt.Sprintf("unknown kind %q", kind)).
					WithDo("use --kind " + strings.Join(pluginKinds, ", "))
			}
			return a.pluginNew(args[0], kind, sdkDir)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "map", strings.Join(pluginKinds, ", "))
	cmd.Flags().StringVar(&sdkDir, "sdk", "", "folder of the millstream source, for a go.mod replace")
	return cmd
}

// written is what init and new print for machines.
type written struct {
	Name  string   `json:"name"`
	Files []string `json:"files"`
}

func (a *app) pluginNew(dir, kind, sdkDir string) error {
	name, err := nameOf(dir)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return output.Environment("NO_TOOLCHAIN", "there is no go command on the PATH").
			WithDo("install Go, plugins are written in it")
	}
	main := filepath.Join(dir, "main.go")
	result := written{Name: name, Files: []string{main}}
	inside := insideModule(dir)
	if !inside && sdkDir == "" {
		return output.Usage("SDK_UNKNOWN", "there is no go.mod here that requires "+modulePath).
			WithDo("name the folder of its source with --sdk, or work inside a module that requires it")
	}
	if !inside && !isSource(sdkDir) {
		return output.Usage("SDK_UNKNOWN", sdkDir+" is not the source of "+modulePath).
			WithWhy("it has no go.mod of that module").WithDo("name the folder that holds its go.mod")
	}
	data := map[string]string{"Name": name, "Kind": kind}
	if err := writeTemplate("plugin/main.go.tmpl", main, data); err != nil {
		return err
	}
	if !inside {
		if err := writeModule(dir, name, sdkDir); err != nil {
			return err
		}
		result.Files = append(result.Files, filepath.Join(dir, "go.mod"))
	}
	return a.printer.Done(result, "wrote %s\nnext  millstream plugin build %s",
		strings.Join(result.Files, ", "), dir)
}

// nameOf makes a name out of the folder's.
func nameOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := filepath.Base(abs)
	if !scaffoldName.MatchString(name) {
		return "", output.Usage("BAD_NAME", fmt.Sprintf("%q cannot be a name", name)).
			WithDo("use a folder of lower-case letters, digits and dashes")
	}
	return name, nil
}

// writeTemplate fills a template in and writes it where no file is yet.
func writeTemplate(name, file string, data any) error {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return cannotWrite(file, err)
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return output.Conflict("FILE_EXISTS", file+" exists already; it was left as it is")
	}
	if err != nil {
		return cannotWrite(file, err)
	}
	if err := t.Execute(out, data); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

// isSource tells whether a folder is the root of the SDK's module.
func isSource(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	first, _, _ := strings.Cut(string(text), "\n")
	return err == nil && strings.TrimSpace(first) == "module "+modulePath
}

// insideModule tells whether a Go module already covers the folder, which need not exist yet, and
// knows the SDK.
func insideModule(dir string) bool {
	cmd := exec.Command("go", "list", "-m", modulePath)
	cmd.Dir = existingParent(dir)
	return cmd.Run() == nil
}

// writeModule writes a go.mod that finds the SDK in the folder given.
func writeModule(dir, name, sdkDir string) error {
	abs, err := filepath.Abs(sdkDir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("module %s\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %s => %s\n",
		name, modulePath, modulePath, abs)
	file, err := os.OpenFile(filepath.Join(dir, "go.mod"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return cannotWrite(filepath.Join(dir, "go.mod"), err)
	}
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = dir
	if text, err := tidy.CombinedOutput(); err != nil {
		return output.Environment("GO_MOD_TIDY", "go mod tidy failed in "+dir).
			WithWhy(strings.TrimSpace(string(text))).
			WithDo("correct " + filepath.Join(dir, "go.mod") + ", then run go mod tidy there")
	}
	return nil
}
