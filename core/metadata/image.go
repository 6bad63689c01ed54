package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// NoLeader is the leader of a partition that has none, and the controller that is not known.
const NoLeader int32 = -1

// ClusterDefault is the broker id under which configs for all brokers are kept.
const ClusterDefault int32 = -1

// Broker is a registered broker.
type Broker struct {
	ID          int32     `json:"id"`
	Epoch       int64     `json:"epoch"` // raft index of its registration, larger each time
	Host        string    `json:"host"`  // advertised to clients
	Port        int32     `json:"port"`
	Rack        string    `json:"rack,omitempty"` // "" = none
	DirectoryID uuid.UUID `json:"dir"`            // of its data directory; a wiped node gets a new one
	// Endpoints are the addresses of its listeners; none where Host and Port are the only one.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is where clients of one listener reach a broker.
type Endpoint struct {
	Listener string `json:"listener"`
	Protocol string `json:"protocol"` // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

// Endpoint returns where clients of a listener reach the broker; of one that it has not, its first.
func (b *Broker) Endpoint(listener string) Endpoint {
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return e
		}
	}
	return Endpoint{Listener: defaultListener, Protocol: defaultListener, Host: b.Host, Port: b.Port}
}

// defaultListener is the name of a broker's only listener, and its protocol.
const defaultListener = "PLAINTEXT"

// Partition is one partition's assignment.
type Partition struct {
	Leader         int32   `json:"leader"` // broker id or NoLeader
	LeaderEpoch    int32   `json:"leaderEpoch"`
	PartitionEpoch int32   `json:"partitionEpoch"`
	Replicas       []int32 `json:"replicas"` // broker ids, the preferred leader first
	ISR            []int32 `json:"isr"`      // those in sync
}

// Topic is a topic with its partitions, indexed by partition id.
type Topic struct {
	Name       string
	ID         uuid.UUID
	Internal   bool // the cluster's own; clients may not produce to it
	Partitions []Partition
	Configs    map[string]string // the topic's own settings, by name; others have defaults
}

// Image is the cluster's metadata at one version.
type Image struct {
	clusterID     string
	version       int64
	controllerID  int32
	brokers       []Broker // by id
	topics        []*Topic // by name
	topicsByID    []*Topic // by id
	brokerConfigs map[int32]map[string]string
	// resourceConfigs are the settings of groups and of subscriptions to clients' metrics.
	resourceConfigs map[Resource]map[string]string
	features        map[string]FeatureLevel
	featuresEpoch   int64
	nextProducer    int64
	acls            *ACLs             // nil for none
	scram           []ScramCredential // by user and mechanism
	quotas          *ClientQuotas     // nil for none
	static          map[string]string
	nodeID          int32
}

// NewImage returns an empty image as node nodeID sees it. static are the broker settings the node
// was started with; they are local to the node and not part of the cluster's metadata.
func NewImage(nodeID int32, static map[string]string) *Image {
	normal := make(map[string]string, len(static))
	for name, value := range static {
		if def, ok := LookupBrokerConfig(name); ok {
			value = def.Normalize(value)
		}
		normal[name] = value
	}
	return &Image{controllerID: NoLeader, nodeID: nodeID, static: normal}
}

// ClusterID returns the cluster's id, "" before the cluster is formed.
func (i *Image) ClusterID() string { return i.clusterID }

// Version returns the raft index of the last entry in the image.
func (i *Image) Version() int64 { return i.version }

// ControllerID returns the node that leads the controllers, as far as this node knows, or NoLeader.
func (i *Image) ControllerID() int32 { return i.controllerID }

// WithController returns the image with another controller; the version stays.
func (i *Image) WithController(id int32) *Image {
	c := *i
	c.controllerID = id
	return &c
}

// NextProducerID returns the first producer id not yet given out.
func (i *Image) NextProducerID() int64 { return i.nextProducer }

// Brokers returns the registered brokers by id.
func (i *Image) Brokers() []Broker { return i.brokers }

// Broker returns a registered broker.
func (i *Image) Broker(id int32) (Broker, bool) {
	at, ok := slices.BinarySearchFunc(i.brokers, id, func(b Broker, id int32) int {
		return cmp.Compare(b.ID, id)
	})
	if !ok {
		return Broker{}, false
	}
	return i.brokers[at], true
}

// TopicCount returns the number of topics.
func (i *Image) TopicCount() int { return len(i.topics) }

// Topics yields all topics in name order.
func (i *Image) Topics() iter.Seq[*Topic] { return slices.Values(i.topics) }

// Topic returns the topic of that name.
func (i *Image) Topic(name string) (*Topic, bool) {
	at, ok := slices.BinarySearchFunc(i.topics, name, compareName)
	if !ok {
		return nil, false
	}
	return i.topics[at], true
}

// TopicByID returns the topic with that id.
func (i *Image) TopicByID(id uuid.UUID) (*Topic, bool) {
	at, ok := slices.BinarySearchFunc(i.topicsByID, id, compareID)
	if !ok {
		return nil, false
	}
	return i.topicsByID[at], true
}

// BrokerConfig returns the dynamic settings of a broker, or of all brokers for ClusterDefault. The
// map may be nil.
func (i *Image) BrokerConfig(id int32) map[string]string { return i.brokerConfigs[id] }

// Resource names what is neither a topic nor a broker and has settings.
type Resource struct {
	Kind ResourceKind // ResourceGroup or ResourceClientMetrics
	Name string
}

// ResourceConfig returns the settings that a group or a metrics subscription has of its own. The
// map may be nil.
func (i *Image) ResourceConfig(kind ResourceKind, name string) map[string]string {
	return i.resourceConfigs[Resource{kind, name}]
}

// ConfiguredResources returns the names of the groups or metrics subscriptions that have settings
// of their own, in order.
func (i *Image) ConfiguredResources(kind ResourceKind) []string {
	var names []string
	for r := range i.resourceConfigs {
		if r.Kind == kind {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

func compareName(t *Topic, name string) int { return strings.Compare(t.Name, name) }

func compareID(t *Topic, id uuid.UUID) int { return bytes.Compare(t.ID[:], id[:]) }
