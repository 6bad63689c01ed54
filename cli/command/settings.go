package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/millstream-io/millstream/cli/output"
)

// projectFile is looked for in the working directory and the folders above it.
const projectFile = ".millstream.yaml"

func newSettings() *viper.Viper {
	// Broker configs have dots in their names, so the levels of a settings file are told apart by "::".
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	v.SetEnvPrefix("MILLSTREAM")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_", ".", "_"))
	v.AutomaticEnv()
	return v
}

// loadSettings joins the sources of settings in their order of precedence; see the package comment.
func loadSettings(v *viper.Viper, cmd *cobra.Command) error {
	for _, file := range settingsFiles() {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.MergeInConfig(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return output.Usage("BAD_SETTINGS", "cannot read settings from "+file).WithCause(err).
				WithDo("correct the file or move it away")
		}
	}
	if err := v.BindEnv("bootstrap", "MILLSTREAM_BOOTSTRAP", "KAFKA_BROKERS"); err != nil {
		return err
	}
	return v.BindPFlags(cmd.Flags())
}

// settingsFiles lists the existing files, the weakest first.
func settingsFiles() []string {
	var files []string
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, existing(filepath.Join(dir, "millstream", "config.yaml"))...)
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			if found := existing(filepath.Join(dir, projectFile)); found != nil {
				return append(files, found...)
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return files
}

func existing(path string) []string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return []string{path}
	}
	return nil
}
