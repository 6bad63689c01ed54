package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// law says which folders of the project the files of a folder may import, tests aside. "X/" stands
// for X and all below it. core/record is free for all. A folder that is not listed takes the rule
// of the nearest folder above, except in core, where every package has its own.
var law = map[string][]string{
	// Low to high: nothing imports what stands below it in this list.
	"core/record":          {},
	"core/vfs":             {},
	"core/vfs/vfstest":     {"core/vfs"},
	"core/vfs/smalldisk":   {},
	"core/vnet":            {},
	"core/metrics":         {},
	"core/protocol":        {},
	"core/metadata":        {},
	"core/quota":           {"core/metadata"},
	"core/storage":         {"core/vfs", "core/metrics"},
	"core/storage/compact": {"core/vfs", "core/storage"},
	"core/storage/fsck":    {"core/vfs"},
	"core/raft":            {"core/vfs", "core/vnet", "core/metrics", "core/storage"},
	"core/auth":            {"core/metadata"},
	"core/coordinator":     {},
	"core/replica":         {"core/vfs", "core/storage", "core/metadata"},
	"core/controller":      {"core/vfs", "core/storage", "core/metadata", "core/raft"},
	"core/group/offsets":   {},
	"core/group/timers":    {},
	"core/group/assign":    {},
	"core/group/classic":   {"core/coordinator", "core/group/offsets", "core/group/timers"},
	"core/group/consumer": {"core/coordinator", "core/group/offsets", "core/group/timers",
		"core/group/assign", "core/group/classic"},
	"core/group": {"core/metadata", "core/coordinator", "core/group/"},
	"core/txn":   {"core/coordinator"},
	"core/server": {"core/vfs", "core/vnet", "core/metrics", "core/protocol", "core/storage",
		"core/metadata", "core/auth", "core/coordinator", "core/replica", "core/controller",
		"core/group/", "core/txn", "core/quota"},
	"core/server/admin": {"core/metrics"},
	"core":              {"core/"},
	"core/coretest":     {"core", "core/vfs/", "core/vnet"},

	// An operator never sees a client, and a client never an operator: task joins them.
	"streams/client":          {},
	"streams/internal/fields": {},
	"streams/state":           {"core/vfs"},
	"streams/operator":        {"streams/state", "streams/internal/fields"},
	"streams/eventtime":       {"streams/operator"},
	"streams/window":          {"streams/operator"},
	"streams/join": {"streams/operator", "streams/state", "streams/window",
		"streams/internal/fields"},
	"streams/aggregate": {"streams/operator", "streams/state", "streams/window",
		"streams/internal/fields"},
	"streams/gate": {"streams/operator", "streams/state"},
	"streams/topology": {"streams/operator", "streams/eventtime", "streams/window", "streams/join",
		"streams/aggregate", "streams/gate"},
	"streams/task": {"core/vfs", "streams/client", "streams/operator", "streams/eventtime",
		"streams/state", "streams/topology", "streams/internal/fields"},
	"streams": {"core/vfs", "streams/"},
	"streams/streamstest": {"streams/client", "streams/operator", "streams/state", "streams/task",
		"streams/topology"},

	"plugins/pluginpb":   {},
	"plugins/sdk":        {"plugins/pluginpb"},
	"plugins/host":       {"plugins/pluginpb", "plugins/sdk"},
	"plugins/plugintest": {"plugins/pluginpb", "plugins/sdk", "plugins/host"},
	"plugins":            {"plugins/"},

	"connectors": {"plugins/sdk", "connectors/"},

	"pipelines/lang":       {},
	"pipelines/expression": {},
	"pipelines/check":      {"pipelines/lang", "pipelines/expression"},
	"pipelines/plan":       {"pipelines/lang", "pipelines/expression", "pipelines/check"},
	"pipelines/deploy":     {"pipelines/lang", "pipelines/plan", "streams/client"},
	"pipelines":            {"streams/", "plugins/", "pipelines/"},

	// A command asks the broker; it never opens the broker's files.
	"cli/output":   {},
	"cli/internal": {},
	"cli": {"core", "core/vfs", "core/vnet", "core/metrics", "core/server/admin", "streams/",
		"plugins/", "connectors/", "pipelines/", "cli/"},

	"examples": {"core", "streams/", "plugins/", "connectors/", "pipelines/", "cli/command",
		"examples/"},
}

// testLaw says the same of tests, for what is beside the folder's own rule. Who runs a broker of
// core/coretest may give it a disk and a network that fail.
var testLaw = map[string][]string{
	"core":       {"core/"},
	"streams":    {"streams/", "core/coretest", "core/vfs", "core/vfs/smalldisk", "core/vnet"},
	"plugins":    {"plugins/"},
	"connectors": {"plugins/"},
	"pipelines": {"pipelines/", "streams/", "plugins/", "connectors", "core/coretest", "core/vfs",
		"core/vfs/smalldisk", "core/vnet"},
	"cli":      {"cli/", "core/coretest", "core/vfs", "core/vnet"},
	"examples": {"core/coretest"},
}

// forTests are packages that exist to be imported by tests and examples only.
var forTests = []string{"core/coretest", "core/vfs/vfstest", "core/vfs/smalldisk", "core/sim",
	"streams/streamstest", "plugins/plugintest"}

// owners says which folders alone may import a library, so that it can be replaced in one place.
var owners = map[string][]string{
	// streams/client adds the offsets of a group to a transaction, which kgo does for members only.
	"github.com/twmb/franz-go/pkg/kmsg":   {"core/protocol", "core/server", "streams/client"},
	"github.com/twmb/franz-go/pkg/kgo":    {"streams", "pipelines", "cli", "core/coretest"},
	"github.com/twmb/franz-go/pkg/kadm":   {"streams", "pipelines", "cli"},
	"go.etcd.io/raft":                     {"core/raft"},
	"github.com/go-jose/go-jose":          {"core/auth"},
	"go.etcd.io/bbolt":                    {"streams/state"},
	"github.com/hashicorp/go-plugin":      {"plugins"},
	"google.golang.org/grpc":              {"plugins"},
	"github.com/expr-lang/expr":           {"pipelines/expression"},
	"github.com/spf13":                    {"cli"},
	"github.com/klauspost/compress":       {"core/record"},
	"github.com/pierrec/lz4":              {"core/record"},
	"github.com/prometheus/client_golang": {"core"},
	"github.com/stretchr/testify":         forTests,
	"github.com/schollz/progressbar":      {"cli/output"},
	"golang.org/x/sys":                    {"core/vfs", "plugins", "connectors/file"},
}

func TestImportsFollowTheLaw(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if why := forbidden(s.folder(), s.isTest(), path); why != "" {
				findings = append(findings, fmt.Sprintf("%s imports %s: %s", s.path, path, why))
			}
		}
	}
	report(t, "imports against the law", findings)
}

// forbidden says why a file of a folder must not import path, or nothing if it may.
func forbidden(from string, isTest bool, path string) string {
	target, ours := strings.CutPrefix(path, modulePath+"/")
	switch {
	case !ours:
		return forbiddenLibrary(from, isTest, path)
	case target == from || target == "core/record":
		return ""
	case inAny(target, []string{"examples"}) && !inAny(from, []string{"examples"}):
		return "nobody imports examples"
	case inAny(target, forTests) && !isTest && !inAny(from, forTests):
		return "it is for tests only"
	}
	rule, ok := ruleFor(from)
	if !ok {
		return "the folder is unknown to the law"
	}
	may := law[rule]
	if isTest {
		top, _, _ := strings.Cut(from, "/")
		may = slices.Concat(may, testLaw[top])
	}
	if !allows(may, target) {
		return "allowed from " + rule + ": " + strings.Join(may, " ")
	}
	return ""
}

func forbiddenLibrary(from string, isTest bool, path string) string {
	for library, folders := range owners {
		if (path == library || strings.HasPrefix(path, library+"/")) && !isTest &&
			!inAny(from, folders) {
			return "only " + strings.Join(folders, ", ") + " may know this library"
		}
	}
	return ""
}

// allows says whether target is in a list of folders and "folder/"s.
func allows(list []string, target string) bool {
	return slices.ContainsFunc(list, func(a string) bool {
		folder, below := strings.CutSuffix(a, "/")
		return target == folder || below && strings.HasPrefix(target, a)
	})
}

// ruleFor is the rule of the folder or, outside core, of the nearest one above.
func ruleFor(folder string) (string, bool) {
	for {
		if _, ok := law[folder]; ok {
			return folder, true
		}
		i := strings.LastIndexByte(folder, '/')
		if i < 0 || strings.HasPrefix(folder, "core/") {
			return "", false
		}
		folder = folder[:i]
	}
}

func TestLawRefusesWhatTheDesignForbids(t *testing.T) {
	for _, c := range []struct{ from, target string }{
		{"core/storage", "core/metadata"},
		{"core/storage", "core/replica"},
		{"core/storage", "core/protocol"},
		{"core/storage", "core"},
		{"core/replica", "core/server"},
		{"core/group", "core/replica"},
		{"core/group/classic", "core/group"},
		{"core/unheardof", "core/storage"},
		{"core/server", "core/coretest"},
		{"core", "streams"},
		{"streams/operator", "streams/client"},
		{"streams/client", "streams/operator"},
		{"streams/task", "core/storage"},
		{"streams", "core"},
		{"streams", "plugins/sdk"},
		{"streams/window", "pipelines/plan"},
		{"plugins/host", "streams/operator"},
		{"plugins/sdk", "core/vfs"},
		{"connectors/file", "plugins/host"},
		{"connectors/file", "plugins/plugintest"},
		{"connectors/file", "streams/client"},
		{"pipelines/lang", "pipelines/check"},
		{"pipelines/runner", "core/storage"},
		{"pipelines/runner", "core/vfs"},
		{"pipelines/runner", "connectors"},
		{"cli/command", "core/storage"},
		{"cli/command", "examples/flights"},
		{"cli/output", "cli/command"},
		{"cli/internal/ranges", "cli/command"},
		{"examples/flights", "core/storage"},
	} {
		why := forbidden(c.from, false, modulePath+"/"+c.target)
		require.NotEmpty(t, why, "%s may import %s", c.from, c.target)
	}
	require.NotEmpty(t, forbidden("streams", true, modulePath+"/pipelines/plan"))
	require.NotEmpty(t, forbidden("pipelines/runner", true, modulePath+"/core/storage"))
	require.NotEmpty(t, forbidden("plugins/host", true, modulePath+"/core"))
	require.NotEmpty(t, forbidden("core/server", true, modulePath+"/cli/command"))
	require.NotEmpty(t, forbidden("streams/task", false, "github.com/twmb/franz-go/pkg/kmsg"))
	require.NotEmpty(t, forbidden("core/storage", false, "go.etcd.io/raft/v3/raftpb"))
	require.Empty(t, forbidden("core/storage", false, modulePath+"/core/vfs"))
	require.Empty(t, forbidden("connectors/file", true, modulePath+"/plugins/plugintest"))
	require.Empty(t, forbidden("core/raft", false, "go.etcd.io/raft/v3/raftpb"))
}

// A rule for a folder that is gone would be a hole for the next one of that name.
func TestLawNamesFoldersThatExist(t *testing.T) {
	folders := map[string]bool{}
	for _, s := range sources(t) {
		for folder := s.folder(); ; {
			folders[folder] = true
			i := strings.LastIndexByte(folder, '/')
			if i < 0 {
				break
			}
			folder = folder[:i]
		}
	}
	var findings []string
	for _, folder := range slices.Sorted(maps.Keys(law)) {
		if !folders[folder] {
			findings = append(findings, folder)
		}
	}
	report(t, "rules for folders that do not exist", findings)
}
