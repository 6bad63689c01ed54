package command

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v4"

	"github.com/millstream-io/millstream/cli/output"
)

// projectFile is looked for in the working directory and the folders above it.
const projectFile = ".millstream.yaml"

// settingKind is what the value of a setting looks like in a file.
type settingKind int

const (
	settingText settingKind = iota
	settingBool
	settingList // one text or a list of texts, which are joined by commas
)

// settingKinds are the settings that files and MILLSTREAM_ variables may give. In files there is
// also brokerKey.
var settingKinds = map[string]settingKind{
	"output": settingText, "no-headers": settingBool, "quiet": settingBool,
	"bootstrap": settingList, "data-dir": settingText, "listen": settingText,
	"roles": settingList, "http": settingText, "ready-file": settingText, "log-level": settingText,
}

// brokerKey holds broker configs by Kafka's names, as a mapping under it or as broker.NAME.
const brokerKey = "broker"

// settings are where every command looks up what it was told outside its own arguments.
type settings struct {
	*viper.Viper
	// broker configs, from files only.
	broker map[string]string
}

func newSettings() *settings {
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	v.SetEnvPrefix("MILLSTREAM")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	return &settings{Viper: v, broker: map[string]string{}}
}

// load joins the sources of settings in their order of precedence; see the package comment.
func (s *settings) load(cmd *cobra.Command) error {
	for _, file := range settingsFiles() {
		if err := s.merge(file); err != nil {
			return output.Usage("BAD_SETTINGS", "cannot use the settings in "+file).WithCause(err).
				WithDo("correct the file or move it away")
		}
	}
	if err := s.BindEnv("bootstrap", "MILLSTREAM_BOOTSTRAP", "KAFKA_BROKERS"); err != nil {
		return err
	}
	for name, kind := range settingKinds {
		variable := "MILLSTREAM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value := os.Getenv(variable)
		if kind != settingBool || value == "" {
			continue
		}
		if _, err := strconv.ParseBool(value); err != nil {
			return output.Usage("BAD_SETTINGS", fmt.Sprintf("%s=%s is not true or false", variable,
				value))
		}
	}
	return s.BindPFlags(cmd.Flags())
}

// merge adds the settings of a file, which win over those of the files before it.
func (s *settings) merge(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var found map[string]any
	if err := yaml.Unmarshal(text, &found); err != nil {
		return err
	}
	values := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if err := s.mergeOne(values, key, found[key]); err != nil {
			return err
		}
	}
	return s.MergeConfigMap(values)
}

func (s *settings) mergeOne(values map[string]any, key string, value any) error {
	if key == brokerKey {
		configs, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: must be a mapping of broker configs", key)
		}
		for name, one := range configs {
			if err := s.mergeBroker(name, one); err != nil {
				return err
			}
		}
		return nil
	}
	if name, ok := strings.CutPrefix(key, brokerKey+"."); ok {
		return s.mergeBroker(name, value)
	}
	kind, known := settingKinds[key]
	if !known {
		names := slices.Sorted(maps.Keys(settingKinds))
		if best := nearest(key, names); best != "" {
			return fmt.Errorf("there is no setting %q, did you mean %q?", key, best)
		}
		return fmt.Errorf("there is no setting %q: use %s or %s", key, strings.Join(names, ", "),
			brokerKey)
	}
	checked, err := kind.check(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	values[key] = checked
	return nil
}

func (s *settings) mergeBroker(name string, value any) error {
	switch value.(type) {
	case map[string]any, []any, nil:
		return fmt.Errorf("%s: %s: must be one value; write the whole name of the config as its key",
			brokerKey, name)
	}
	s.broker[name] = fmt.Sprint(value)
	return nil
}

func (k settingKind) check(value any) (any, error) {
	list, isList := value.([]any)
	switch {
	case k == settingBool:
		if _, ok := value.(bool); !ok {
			return nil, fmt.Errorf("%v is not true or false", value)
		}
		return value, nil
	case k == settingList && isList:
		var parts []string
		for _, one := range list {
			parts = append(parts, fmt.Sprint(one))
		}
		return strings.Join(parts, ","), nil
	}
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%v is not a text", value)
	}
	return text, nil
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
