package storage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/vfs"
)

// encodeID writes a uuid as Kafka does: 22 characters of URL-safe base64 without padding.
func encodeID(id uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// decodeID is the inverse of encodeID.
func decodeID(s string) (uuid.UUID, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return uuid.Nil, fmt.Errorf("%w: %q is not a base64 uuid", ErrBadFile, s)
	}
	return uuid.UUID(b), nil
}

// newID makes a random id whose text does not begin with '-', which tools take for a flag.
func newID() uuid.UUID {
	for {
		id := uuid.New()
		if !strings.HasPrefix(encodeID(id), "-") {
			return id
		}
	}
}

// formatPartitionMetadata writes partition.metadata: whose incarnation of a topic this is.
func formatPartitionMetadata(topicID uuid.UUID) []byte {
	return []byte("version: 0\ntopic_id: " + encodeID(topicID))
}

// parsePartitionMetadata is its inverse.
func parsePartitionMetadata(data []byte) (uuid.UUID, error) {
	version, id := "", ""
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); {
		case !ok && name == "":
		case name == "version":
			version = value
		case name == "topic_id":
			id = value
		default:
			return uuid.Nil, fmt.Errorf("%w: line %q", ErrBadFile, line)
		}
	}
	if version != "0" {
		return uuid.Nil, fmt.Errorf("%w: version %q, want 0", ErrBadFile, version)
	}
	return decodeID(id)
}

// metaProperties is the file meta.properties: whose data directory this is.
type metaProperties struct {
	clusterID   string
	nodeID      int32
	directoryID uuid.UUID
}

func (m metaProperties) format() []byte {
	return fmt.Appendf(nil, "version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n",
		m.clusterID, m.nodeID, encodeID(m.directoryID))
}

// parseMetaProperties reads a Java properties file of version 1. Unknown keys are ignored.
func parseMetaProperties(data []byte) (metaProperties, error) {
	var m metaProperties
	version, node, dir := "", "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "version":
			version = value
		case "cluster.id":
			m.clusterID = value
		case "node.id":
			node = value
		case "directory.id":
			dir = value
		}
	}
	id, err := strconv.ParseInt(node, 10, 32)
	if version != "1" || err != nil || m.clusterID == "" {
		return m, fmt.Errorf("%w: want version=1, node.id and cluster.id, found %q, %q, %q",
			ErrBadFile, version, node, m.clusterID)
	}
	m.nodeID = int32(id)
	if dir == "" {
		return m, nil
	}
	m.directoryID, err = decodeID(dir)
	return m, err
}

// cleanShutdown is the file .kafka_cleanshutdown, in JSON. Its presence says that all logs were
// closed and synced.
type cleanShutdown struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

func (c cleanShutdown) format() ([]byte, error) { return json.Marshal(c) }

// parseCleanShutdown accepts the empty file of old versions.
func parseCleanShutdown(data []byte) (cleanShutdown, error) {
	c := cleanShutdown{BrokerEpoch: -1}
	if len(data) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(data, &c); err != nil || c.Version != 0 {
		return c, fmt.Errorf("%w: %q", ErrBadFile, data)
	}
	return c, nil
}

// ReadNodeID reads whose data directory it is from its meta.properties.
func ReadNodeID(fsys vfs.FS, name string) (int32, error) {
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return 0, err
	}
	m, err := parseMetaProperties(data)
	return m.nodeID, err
}
