package core

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/server"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
)

// Options configure one broker. Only DataDir is required.
type Options struct {
	// DataDir holds everything the broker keeps; it is created if missing.
	DataDir string
	// Listen is the address of the Kafka listener. Default 127.0.0.1:9092; port 0 takes a free
	// one. It does not count where Config has "listeners".
	Listen string
	// AdvertisedHost is the name under which clients reach the listener. Default: the host that
	// is listened on, which must then be a specific one.
	AdvertisedHost string
	// Insecure allows listeners without authentication on addresses that other machines can reach,
	// for the HTTP endpoints too.
	Insecure bool
	// HTTPListen is the address of /healthz, /readyz, /metrics and /debug/pprof; "" serves none.
	HTTPListen string
	// HTTPHandlers are served there too, by pattern of net/http's ServeMux.
	HTTPHandlers map[string]http.Handler
	// Metrics are told by /metrics after those of the broker.
	Metrics []metrics.Source
	// NodeID is this node's id; it must stay the same for a DataDir. Default: that of DataDir, else
	// 1.
	NodeID int32
	// Config are broker settings by Kafka's names, such as num.partitions or log.flush.
	Config map[string]string
	// Limits bounds what clients can make the broker hold.
	Limits server.Limits
	// FS is the disk. Default: the operating system's.
	FS vfs.FS
	// Net is the network. Default: TCP.
	Net vnet.Network
	// Now is the wall clock. Default: time.Now.
	Now func() time.Time
	// Logger takes what the broker has to say; nil discards it.
	Logger *slog.Logger
}

const (
	defaultListen       = "127.0.0.1:9092"
	defaultNodeID int32 = 1
)

func (o *Options) withDefaults() {
	if o.Listen == "" {
		o.Listen = defaultListen
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Net == nil {
		o.Net = vnet.TCP()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) validate() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, errors.New("no data directory is given"))
	}
	if o.NodeID < 0 {
		errs = append(errs, errors.New("the node id is negative"))
	}
	errs = append(errs, metadata.ValidateStaticConfigs(o.Config))
	return errors.Join(errs...)
}
