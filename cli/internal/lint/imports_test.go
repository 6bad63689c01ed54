package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// allowed says which folders each folder may import, beside itself and what lies below it. A folder
// that is not listed takes the rule of the folder above. "X/" stands for X and all below it.
var allowed = map[string][]string{
	"core/record":      {},
	"core/vfs":         {},
	"core/vnet":        {},
	"core/protocol":    {"core/record"},
	"core/storage":     {"core/record", "core/vfs"},
	"core/metadata":    {"core/record"},
	"core/raft":        {"core/record", "core/vfs", "core/vnet", "core/storage"},
	"core/coordinator": {"core/record"},
	"core/replica":     {"core/record", "core/vfs", "core/storage", "core/metadata"},
	"core/controller":  {"core/record", "core/vfs", "core/storage", "core/metadata", "core/raft"},
	"core/group":       {"core/record", "core/metadata", "core/coordinator"},
	"core/server": {"core/record", "core/vfs", "core/vnet", "core/protocol", "core/storage",
		"core/metadata", "core/replica", "core/controller", "core/group/", "core/coordinator"},
	"core": {"core/"},

	"streams":        {"core/record", "core/vfs", "streams/"},
	"plugins":        {"core/record", "plugins/"},
	"connectors":     {"core/record", "plugins/sdk", "plugins/plugintest", "connectors/"},
	"pipelines":      {"core/record", "streams/", "plugins/", "pipelines/"},
	"pipelines/lang": {"core/record"},
	"cli":            {"core/", "streams/", "plugins/", "connectors/", "pipelines/", "cli/"},
	"examples": {"core/", "streams/", "plugins/", "connectors/", "pipelines/", "examples/",
		"cli/"},
}

// forTests are packages that exist to be imported by tests and examples only.
var forTests = []string{"core/coretest", "core/sim", "streams/streamstest", "plugins/plugintest"}

// codecUsers are the only importers of the Kafka message codec.
var codecUsers = []string{"core/protocol", "core/server"}

func TestImportsFollowTheLaw(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if why := forbidden(s, path); why != "" {
				findings = append(findings, fmt.Sprintf("%s imports %s: %s", s.path, path, why))
			}
		}
	}
	report(t, "imports against the law", findings)
}

func forbidden(s source, path string) string {
	if strings.HasSuffix(path, "franz-go/pkg/kmsg") && !slices.Contains(codecUsers, s.folder()) &&
		strings.HasPrefix(s.folder(), "core") && !s.isTest() {
		return "only core/protocol and core/server know the codec"
	}
	target, ours := strings.CutPrefix(path, modulePath+"/")
	if !ours {
		return ""
	}
	from := s.folder()
	switch {
	case s.isTest():
		return "" // a test may reach for real parts
	case slices.Contains(forTests, target) && !strings.HasPrefix(from, "examples") &&
		!inAny(from, forTests) && !strings.HasPrefix(from, "connectors"):
		return "it is for tests only"
	case inAny(target, []string{"examples"}):
		return "nobody imports examples"
	case target == from || strings.HasPrefix(target, from+"/") || strings.HasPrefix(from, target+"/"):
		if rule, ok := ruleFor(from); ok && rule == from || strings.HasPrefix(target, from+"/") {
			return ""
		}
	}
	rule, ok := ruleFor(from)
	if !ok {
		return "the folder is unknown to the law"
	}
	for _, a := range allowed[rule] {
		if target == a || (strings.HasSuffix(a, "/") && (target == strings.TrimSuffix(a, "/") ||
			strings.HasPrefix(target, a))) {
			return ""
		}
	}
	if target == rule || strings.HasPrefix(target, rule+"/") {
		return ""
	}
	return "allowed from " + rule + ": " + strings.Join(allowed[rule], " ")
}

// ruleFor is the nearest folder upwards that has a rule.
func ruleFor(folder string) (string, bool) {
	for {
		if _, ok := allowed[folder]; ok {
			return folder, true
		}
		i := strings.LastIndexByte(folder, '/')
		if i < 0 {
			return "", false
		}
		folder = folder[:i]
	}
}
