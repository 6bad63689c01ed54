package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/command"
)

// The notes of users, whose command lines must work as they stand.
func userNotes(t *testing.T) []string {
	notes, err := filepath.Glob(filepath.Join(root(t), "examples", "*", "README.md"))
	require.NoError(t, err)
	require.NotEmpty(t, notes)
	return append(notes, filepath.Join(root(t), "README.md"))
}

// inBackquotes matches a command line within a sentence.
var inBackquotes = regexp.MustCompile("`(millstream [^`]+)`")

// TestCommandsInNotesParse takes every command line of the notes and asks the program whether it
// understands it. A form such as `millstream replay run …` is no command line.
func TestCommandsInNotesParse(t *testing.T) {
	var findings []string
	commands := 0
	for _, note := range userNotes(t) {
		text, err := os.ReadFile(note)
		require.NoError(t, err)
		for _, line := range commandLines(string(text)) {
			commands++
			why := refused(strings.TrimPrefix(line, mention))
			if why != "" && !(strings.HasPrefix(line, mention) && lacksArgument(why)) {
				findings = append(findings, fmt.Sprintf("%s: %s: %s", note, line, why))
			}
		}
	}
	report(t, "command lines in notes that do not work", findings)
	require.Greater(t, commands, 10, "the notes show how it is used")
}

// mention marks a command that a sentence speaks of, which may leave out its arguments.
const mention = "mention: "

func lacksArgument(why string) bool {
	return strings.HasPrefix(why, "accepts ") || strings.HasPrefix(why, "requires ") ||
		strings.HasPrefix(why, "required flag")
}

// commandLines finds lines of shell blocks, and what stands in backquotes.
func commandLines(text string) []string {
	var lines []string
	inShell := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inShell = line == "```sh" || line == "```bash" || line == "```console"
			continue
		}
		if inShell {
			lines = append(lines, ofShell(line)...)
			continue
		}
		for _, m := range inBackquotes.FindAllStringSubmatch(line, -1) {
			lines = append(lines, mention+m[1])
		}
	}
	return lines
}

// ofShell cuts a shell line into the commands of this program.
func ofShell(line string) []string {
	line = strings.TrimPrefix(line, "$ ")
	line, _, _ = strings.Cut(line, " #")
	var lines []string
	for part := range strings.SplitSeq(strings.ReplaceAll(line, "&&", "|"), "|") {
		part = strings.TrimSpace(strings.ReplaceAll(part, "go run ./cli/millstream", "millstream"))
		part = strings.TrimSuffix(strings.TrimSpace(part), " &")
		if strings.HasPrefix(part, "millstream ") {
			lines = append(lines, part)
		}
	}
	return lines
}

// refused tells why the program does not understand a line, or nothing.
func refused(line string) string {
	words := strings.Fields(line)[1:]
	if i := slices.IndexFunc(words, func(w string) bool { return w == ">" || w == "<" }); i >= 0 {
		words = words[:i]
	}
	if strings.Contains(line, "…") {
		return "" // a form, not a command line
	}
	if _, err := command.Parse(words); err != nil {
		return err.Error()
	}
	return ""
}

// pathInShell matches a path of the project in a command line.
var pathInShell = regexp.MustCompile(
	`(?:^|[ =])(?:\./)?((?:core|streams|plugins|connectors|pipelines|cli|examples)/[\w./-]+)`)

func TestPathsInNotesExist(t *testing.T) {
	var findings []string
	for _, note := range userNotes(t) {
		text, err := os.ReadFile(note)
		require.NoError(t, err)
		for _, line := range commandLines(string(text)) {
			if strings.Contains(line, "plugin new") || strings.Contains(line, "pipeline init") {
				continue // they make it
			}
			for _, m := range pathInShell.FindAllStringSubmatch(line, -1) {
				found := false
				for _, from := range []string{root(t), filepath.Dir(note)} {
					_, err := os.Stat(filepath.Join(from, m[1]))
					found = found || err == nil
				}
				if !found {
					findings = append(findings, fmt.Sprintf("%s: %s: no %s", note, line, m[1]))
				}
			}
		}
	}
	report(t, "paths in notes that do not exist", findings)
}
