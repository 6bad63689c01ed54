package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/cli/output"
)

// finding is the result of one check.
type finding struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pass, warn or fail
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func pass(detail string) finding { return finding{Status: "pass", Detail: detail} }

func warn(detail, hint string) finding {
	return finding{Status: "warn", Detail: detail, Hint: hint}
}

func fail(detail, hint string) finding {
	return finding{Status: "fail", Detail: detail, Hint: hint}
}

// doctorCheck is one named question of doctor.
type doctorCheck struct {
	name string
	run  func(context.Context, *app, doctorFlags) finding
	// asked says that the check runs only if it is named: it takes long, or needs a broker that is
	// stopped.
	asked bool
}

var doctorChecks = []doctorCheck{
	{name: "broker.reachable", run: checkReachable},
	{name: "broker.metadata", run: checkMetadata},
	{name: "listeners.advertised", run: checkAdvertised},
	{name: "data_dir.writable", run: checkDataDir},
	{name: "data_dir.free", run: checkFree},
	{name: "fd.limit", run: checkFiles},
	{name: "plugins.toolchain", run: checkToolchain},
	{name: checkLogName, asked: true},
}

type doctorFlags struct {
	only    []string
	dataDir string
}

func newDoctorCommand(a *app) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and a broker, and say what to do about what is wrong",
		Args:  cobra.NoArgs,
		Example: "  millstream doctor\n" +
			"  millstream doctor --check broker.reachable --check fd.limit -o json\n" +
			"  millstream doctor --check log --data-dir ./data   # of a broker that is stopped",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.dataDir = a.settings.GetString("data-dir")
			return a.doctor(cmd.Context(), f)
		},
	}
	cmd.Flags().StringArrayVar(&f.only, "check", nil, "run only this check; may be repeated")
	cmd.Flags().String("data-dir", defaultDataDir, "data directory to look at")
	return cmd
}

func (a *app) doctor(ctx context.Context, f doctorFlags) error {
	var names []string
	for _, c := range doctorChecks {
		names = append(names, c.name)
	}
	for _, name := range f.only {
		if !slices.Contains(names, name) {
			return output.Usage("UNKNOWN_CHECK", fmt.Sprintf("there is no check %q", name)).
				WithDo("checks: " + strings.Join(names, ", "))
		}
	}
	if slices.Contains(f.only, checkLogName) {
		if len(f.only) > 1 {
			return output.Usage("BAD_FLAGS", "--check log cannot be joined with others").
				WithDo("run it by itself, with the broker stopped")
		}
		return a.doctorLog(ctx, f.dataDir)
	}
	var findings []finding
	failed := 0
	for _, c := range doctorChecks {
		if c.asked || len(f.only) > 0 && !slices.Contains(f.only, c.name) {
			continue
		}
		result := c.run(ctx, a, f)
		result.Name = c.name
		if result.Status == "fail" {
			failed++
		}
		findings = append(findings, result)
	}
	if err := a.printFindings(findings, failed); err != nil {
		return err
	}
	if failed > 0 {
		return reported(output.ExitVerdict)
	}
	return nil
}

func (a *app) printFindings(findings []finding, failed int) error {
	summary := fmt.Sprintf("%d checks, %d failed", len(findings), failed)
	if a.printer.Machine() {
		return output.One(a.printer, output.Verdict{Command: "doctor", OK: failed == 0,
			Summary: summary, Result: findings}, nil)
	}
	err := output.List(a.printer, findings, []output.Column[finding]{
		{Title: "CHECK", Cell: func(f finding) string { return f.Name }},
		{Title: "STATUS", Cell: func(f finding) string { return f.Status }},
		{Title: "DETAIL", Cell: func(f finding) string { return f.Detail }},
		{Title: "DO", Cell: func(f finding) string { return f.Hint }},
	})
	a.printer.Note("%s", summary)
	return err
}

func checkReachable(ctx context.Context, a *app, _ doctorFlags) finding {
	start := time.Now()
	cl, err := a.client(ctx)
	if err != nil {
		e := output.Explain(err)
		return fail(e.Error(), e.Do)
	}
	cl.Close()
	return pass(fmt.Sprintf("answers in %s", time.Since(start).Round(time.Millisecond)))
}

func checkMetadata(ctx context.Context, a *app, _ doctorFlags) finding {
	meta, err := a.metadata(ctx)
	if err != nil {
		return fail(err.Error(), "")
	}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				return fail(fmt.Sprintf("%s-%d has no leader", t.Topic, p.Partition),
					"see the broker's log for the reason")
			}
		}
	}
	return pass(fmt.Sprintf("cluster %s, %d brokers, %d topics",
		meta.Cluster, len(meta.Brokers), len(meta.Topics)))
}

func (a *app) metadata(ctx context.Context) (kadm.Metadata, error) {
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return kadm.Metadata{}, err
	}
	defer cl.Close()
	return adm.Metadata(ctx)
}

// checkAdvertised dials every address the broker tells clients to use: the trap of every first
// hour.
func checkAdvertised(ctx context.Context, a *app, _ doctorFlags) finding {
	meta, err := a.metadata(ctx)
	if err != nil {
		return fail(err.Error(), "")
	}
	var addresses []string
	for _, b := range meta.Brokers {
		address := net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
		addresses = append(addresses, address)
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return fail(fmt.Sprintf("broker %d tells clients to use %s, which cannot be reached "+
				"from here", b.NodeID, address), "listen on an address that clients can reach")
		}
		_ = conn.Close()
	}
	return pass(strings.Join(addresses, ", ") + " reachable from here")
}

func checkDataDir(_ context.Context, _ *app, f doctorFlags) finding {
	dir := existingParent(f.dataDir)
	file, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return fail(err.Error(), "choose another folder with --data-dir")
	}
	_ = file.Close()
	_ = os.Remove(file.Name())
	return pass(dir)
}

// minFree is the free space below which retention, compaction and recovery may run out of room.
const minFree = 1 << 30

func checkFree(_ context.Context, _ *app, f doctorFlags) finding {
	var st syscall.Statfs_t
	dir := existingParent(f.dataDir)
	if err := syscall.Statfs(dir, &st); err != nil {
		return fail(err.Error(), "")
	}
	free := st.Bavail * uint64(st.Bsize)
	text := fmt.Sprintf("%.1f GiB free in %s", float64(free)/(1<<30), dir)
	if free < minFree {
		return warn(text, "free some space or shorten retention.ms")
	}
	return pass(text)
}

// existingParent is the nearest folder upwards that exists.
func existingParent(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "."
		}
		dir = parent
	}
}

// wantFiles is enough for a few thousand partitions and connections.
const wantFiles = 4096

func checkFiles(context.Context, *app, doctorFlags) finding {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fail(err.Error(), "")
	}
	text := fmt.Sprintf("%d open files allowed", limit.Cur)
	if limit.Cur < wantFiles {
		return warn(text, fmt.Sprintf("ulimit -n %d", wantFiles))
	}
	return pass(text)
}

func checkToolchain(ctx context.Context, _ *app, _ doctorFlags) finding {
	out, err := exec.CommandContext(ctx, "go", "version").Output()
	if err != nil {
		return warn("no Go toolchain on the PATH",
			"install Go to build plugins from source; built plugins run without it")
	}
	return pass(strings.TrimSpace(string(out)))
}
