package server

import (
	"errors"
	"log/slog"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/quota"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
)

// Options are the parts a Server answers from. All but Logger, LogLevels, Authorizer
// and Limits are required.
type Options struct {
	// NodeID is this broker's id.
	NodeID int32
	// Controller decides about topics and settings, and has the newest metadata.
	Controller *controller.Controller
	// Replicas are the partitions this broker serves.
	Replicas *replica.Manager
	// Groups coordinates consumer groups.
	Groups *group.Coordinator
	// Transactions coordinates transactions and gives out producer ids.
	Transactions *txn.Coordinator
	// Markers brings transaction markers to partitions, for WriteTxnMarkers.
	Markers txn.MarkerSender
	// Dir is the data directory, described by DescribeLogDirs.
	Dir *storage.Dir
	// DirPath is its path.
	DirPath string
	// FreeBytes returns the free space of its volume.
	FreeBytes func() (uint64, error)
	// TotalBytes returns the size of its volume.
	TotalBytes func() (uint64, error)
	// Authorizer controls access; nil lets everybody do everything.
	Authorizer *auth.Authorizer
	// LogLevels are the loggers that administrators can change; nil has none.
	LogLevels LogLevels
	// Quotas say how the use of client quotas is measured.
	Quotas quota.Options
	// Limits bounds what clients can make the server hold.
	Limits Limits
	// Logger takes what the server has to say; nil discards it.
	Logger *slog.Logger
}

func (o *Options) withDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits.withDefaults()
}

func (o *Options) validate() error {
	var errs []error
	missing := func(what string) { errs = append(errs, errors.New("no "+what)) }
	if o.Controller == nil {
		missing("controller")
	}
	if o.Replicas == nil {
		missing("replicas")
	}
	if o.Groups == nil {
		missing("groups")
	}
	if o.Transactions == nil || o.Markers == nil {
		missing("transactions")
	}
	if o.Dir == nil || o.FreeBytes == nil || o.TotalBytes == nil {
		missing("data directory")
	}
	return errors.Join(errs...)
}
