package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one broken rule.
type mutant struct {
	// rule is what the change breaks.
	rule string
	// file holds old, once, and new takes its place.
	file, old, new string
	// tests are packages, run in this order until one fails; with a regular expression after a colon only some tests.
	// They are named by their folders, without core where the file is there.
	tests []string
}

// all are the mutants of all files.
var all = slices.Concat(mutants, securityMutants, streamsMutants, stateMutants, operatorMutants, pipelineMutants)

func main() {
	var o options
	flag.StringVar(&o.only, "run", "", "only rules that this regular expression matches")
	flag.BoolVar(&o.list, "list", false, "only list the rules")
	flag.StringVar(&o.done, "done", "", "a file that lists what was killed: that is skipped, and what is killed is added")
	flag.IntVar(&o.most, "most", len(all), "run so many at most")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options say which mutants are run.
type options struct {
	only, done string
	list       bool
	most       int
}

// selected returns the mutants that are asked for and not done.
func (o *options) selected() (todo []mutant, err error) {
	wanted, err := regexp.Compile(o.only)
	if err != nil {
		return nil, err
	}
	done, err := os.ReadFile(o.done)
	if err != nil && o.done != "" && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	killed := map[string]bool{}
	for line := range strings.Lines(string(done)) {
		rule, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		killed[rule] = true
	}
	for _, m := range all {
		if wanted.MatchString(m.rule) && !killed[m.rule] {
			todo = append(todo, m)
		}
	}
	return todo[:min(len(todo), o.most)], nil
}

// killed notes a rule that was seen to be tested: its name, the seconds, the test.
func (o *options) killed(rule string, took time.Duration, test string) error {
	if o.done == "" {
		return nil
	}
	f, err := os.OpenFile(o.done, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%.0f\t%s\n", rule, took.Seconds(), test)
	return errors.Join(err, f.Close())
}

func run(o options) error {
	todo, err := o.selected()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	killed, survived, broken := 0, 0, 0
	for _, m := range todo {
		if o.list {
			if _, err := m.changed(); err != nil {
				return fmt.Errorf("%s: %w", m.rule, err)
			}
			fmt.Println(m.rule)
			continue
		}
		began := time.Now()
		test, err := m.killer(dir)
		if err != nil {
			fmt.Printf("%-8s       %s: %v\n", "BROKEN", m.rule, err)
			broken++
			continue
		}
		verdict, took := "killed", time.Since(began)
		if killed++; test == "" {
			verdict = "SURVIVED"
			killed--
			survived++
		} else if err := o.killed(m.rule, took, test); err != nil {
			return err
		}
		fmt.Printf("%-8s %4.0fs  %-55s %s\n", verdict, took.Seconds(), m.rule, test)
	}
	fmt.Printf("%d killed, %d survived, %d do not run\n", killed, survived, broken)
	if survived+broken > 0 {
		return errors.New("rules without a test")
	}
	return nil
}

// changed returns the file with the rule broken.
func (m *mutant) changed() (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has the text %d times: %s", m.file, n, m.old)
	}
	return strings.Replace(string(source), m.old, m.new, 1), nil
}

// killer returns the test that fails, "" if none does.
func (m *mutant) killer(dir string) (string, error) {
	source, err := m.changed()
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	for _, t := range m.tests {
		pkg, some, _ := strings.Cut(t, ":")
		if strings.HasPrefix(m.file, "core/") {
			pkg = "core/" + pkg
		}
		out, err := exec.Command("go", "test", "-overlay", file, "-vet=off", "-failfast", "-short", "-timeout", "120s",
			"-run", some, "./"+pkg).CombinedOutput()
		if err == nil {
			continue
		}
		if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("no test")) {
			return "", fmt.Errorf("does not run:\n%s", out)
		}
		return t + " " + failedTest(out), nil
	}
	return "", nil
}

var failure = regexp.MustCompile(`--- FAIL: (\S+)|panic: (.{0,60})`)

func failedTest(out []byte) string {
	if m := failure.FindSubmatch(out); m != nil {
		return string(m[1]) + string(m[2])
	}
	return "did not end"
}
