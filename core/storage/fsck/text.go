package fsck

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// lineError is a text file that is not as it must be.
type lineError struct {
	line int64 // from 1
	what string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

func badLine(line int, format string, args ...any) error {
	return &lineError{int64(line), fmt.Sprintf(format, args...)}
}

// checkpointLines reads a checkpoint file: a version, a count and so many lines.
func checkpointLines(data []byte) ([]string, error) {
	lines := strings.Split(string(data), "\n")
	if n := len(lines); lines[n-1] != "" {
		return nil, badLine(n, "does not end with a line break")
	}
	lines = lines[:len(lines)-1]
	if len(lines) < 2 {
		return nil, badLine(1, "has %d lines, want a version and a count", len(lines))
	}
	if lines[0] != "0" {
		return nil, badLine(1, "version %q, want 0", lines[0])
	}
	if lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, badLine(2, "count %q, but %d lines follow", lines[1], len(lines)-2)
	}
	return lines[2:], nil
}

// number reads a decimal number without sign or leading zeros, as the writers make them.
func number(s string, bits int) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, bits)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// parseOffsets reads an offset checkpoint: "topic partition offset" in each line. The keys are
// directory names.
func parseOffsets(data []byte) (map[string]int64, error) {
	if len(data) == 0 {
		return map[string]int64{}, nil // as Kafka leaves a file it never wrote to
	}
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	offsets := make(map[string]int64, len(lines))
	for i, line := range lines {
		f := strings.Split(line, " ")
		if len(f) != 3 || !validTopic(f[0]) {
			return nil, badLine(i+3, "%q is no topic, partition and offset", line)
		}
		_, ok1 := number(f[1], 32)
		offset, ok2 := number(f[2], 64)
		name := f[0] + "-" + f[1]
		if _, twice := offsets[name]; !ok1 || !ok2 || twice {
			return nil, badLine(i+3, "%q is no topic, partition and offset, or its second", line)
		}
		offsets[name] = offset
	}
	return offsets, nil
}

// epochLine is a line of leader-epoch-checkpoint: the leader of epoch wrote from start on.
type epochLine struct {
	epoch int32
	start int64
}

func parseEpochs(data []byte) ([]epochLine, error) {
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	var list []epochLine
	for i, line := range lines {
		a, b, _ := strings.Cut(line, " ")
		epoch, ok1 := number(a, 32)
		start, ok2 := number(b, 64)
		if !ok1 || !ok2 {
			return nil, badLine(i+3, "%q is no epoch and offset", line)
		}
		e := epochLine{int32(epoch), start}
		if n := len(list); n > 0 && (list[n-1].epoch >= e.epoch || list[n-1].start >= e.start) {
			return nil, badLine(i+3, "%q does not follow epoch %d from offset %d", line,
				list[n-1].epoch, list[n-1].start)
		}
		list = append(list, e)
	}
	return list, nil
}

// properties reads a Java properties file without continuation lines.
func properties(data []byte) (map[string]string, error) {
	values := make(map[string]string)
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || values[name] != "" {
			return nil, badLine(n, "%q is no setting, or its second", line)
		}
		values[name] = value
	}
	return values, nil
}

// checkProperties says what is wrong with meta.properties.
func checkProperties(data []byte) error {
	values, err := properties(data)
	if err != nil {
		return err
	}
	known := map[string]bool{
		"version": true, "cluster.id": true, "node.id": true, "directory.id": true,
	}
	for name := range values {
		if !known[name] {
			return fmt.Errorf("setting %q is unknown", name)
		}
	}
	if values["version"] != "1" {
		return fmt.Errorf("version is %q, want 1", values["version"])
	}
	if _, ok := number(values["node.id"], 32); !ok {
		return fmt.Errorf("node.id is %q, want a number", values["node.id"])
	}
	if id := values["cluster.id"]; !validTopic(id) { // the same characters
		return fmt.Errorf("cluster.id is %q, want letters, digits, - and _", id)
	}
	if id := values["directory.id"]; id != "" && !validID(id) {
		return fmt.Errorf("directory.id is %q, want 22 characters of base64", id)
	}
	return nil
}

// validID says whether s is a uuid as Kafka writes it.
func validID(s string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 16
}

// checkPartitionMetadata says what is wrong with partition.metadata.
func checkPartitionMetadata(data []byte) error {
	text := strings.TrimSuffix(string(data), "\n")
	id, ok := strings.CutPrefix(text, "version: 0\ntopic_id: ")
	if !ok {
		return fmt.Errorf("it is %q, want \"version: 0\" and a line with the topic_id", data)
	}
	if !validID(id) || id == "AAAAAAAAAAAAAAAAAAAAAA" {
		return fmt.Errorf("topic_id is %q, want 22 characters of base64", id)
	}
	return nil
}

// checkCleanShutdown says what is wrong with .kafka_cleanshutdown.
func checkCleanShutdown(data []byte) error {
	if len(data) == 0 {
		return nil // as old versions leave it
	}
	var v struct {
		Version     *int   `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Version == nil || *v.Version != 0 || v.BrokerEpoch == nil {
		return fmt.Errorf("it is %q, want version 0 and a brokerEpoch", data)
	}
	return nil
}

// validTopic says whether s can be the name of a topic.
func validTopic(s string) bool {
	if s == "" || len(s) > 249 || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9',
			r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return true
}

// isPartition says whether a directory's name is that of a partition.
func isPartition(name string) bool {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || !validTopic(name[:i]) {
		return false
	}
	_, ok := number(name[i+1:], 32)
	return ok
}
