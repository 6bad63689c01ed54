package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options configure the Kafka adapter. Only Seeds has no default.
type Options struct {
	// Seeds are broker addresses, host:port.
	Seeds []string
	// Dialer replaces TCP, for a broker in the same process.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// ClientID is what the brokers see; empty is "millstream".
	ClientID string
	// Linger is how long a Producer's batch that is not full waits for more; 0 is 1 ms. A
	// Transactor's waits for Flush or Commit.
	Linger time.Duration
	// BufferBytes bounds what one Producer has sent without acknowledgement; 0 is 4 MiB.
	BufferBytes int64
	// FetchBytes bounds one fetch answer; 0 is 2 MiB.
	FetchBytes int32
	// FetchWait is how long a broker holds a fetch that finds nothing; 0 is 250 ms. A partition
	// that is assigned or resumed meanwhile waits that long at most.
	FetchWait time.Duration
	// StallAfter is how long records may wait for their acknowledgement before that is logged, again
	// and again while it lasts; 0 is 5 s. A broker whose disk is full keeps them waiting.
	StallAfter time.Duration
	// Logger hears of connection trouble; nil is silent.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.ClientID == "" {
		o.ClientID = "millstream"
	}
	if o.Linger == 0 {
		o.Linger = time.Millisecond
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = 4 << 20
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = 2 << 20
	}
	if o.FetchWait == 0 {
		o.FetchWait = 250 * time.Millisecond
	}
	if o.StallAfter == 0 {
		o.StallAfter = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if len(o.Seeds) == 0 {
		return errors.New("client options: no broker address")
	}
	if o.BufferBytes < 0 || o.FetchBytes < 0 || o.Linger < 0 || o.FetchWait < 0 {
		return errors.New("client options: sizes and times must not be negative")
	}
	return nil
}

// Kafka is a cluster that speaks the Kafka protocol.
type Kafka struct {
	opts   Options
	shared *kgo.Client // asks; producers and consumers have their own
	admin  kafkaAdmin
	// waiters are the consumers, producers and requests on their way.
	waiters waiters
}

var _ Cluster = (*Kafka)(nil)

// NewKafka returns the adapter. It connects when it is first used, so a wrong address shows there.
func NewKafka(opts Options) (*Kafka, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	k := &Kafka{opts: opts}
	shared, err := kgo.NewClient(k.kgo()...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	k.shared = shared
	k.admin = kafkaAdmin{kadm.NewClient(shared)}
	return k, nil
}

// kgo returns the options all clients share, and more.
func (k *Kafka) kgo(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(k.opts.Seeds...),
		kgo.ClientID(k.opts.ClientID),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.WithLogger(kgoLogger{k.opts.Logger}),
		kgo.RetryBackoffFn(backoff),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(&k.waiters),
	}
	if k.opts.Dialer != nil {
		opts = append(opts, kgo.Dialer(dialer(k.opts.Dialer)))
	}
	return append(opts, more...)
}

// dialer makes the errors of dial look like those of package net. kgo waits for a broker that
// cannot be dialled only if the error is a net.OpError; any other fails the records at once.
func dialer(dial func(context.Context, string, string) (net.Conn, error),
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			return conn, nil
		}
		if _, ok := errors.AsType[*net.OpError](err); ok {
			return nil, err
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
}

// backoff is the wait before try n of a request: short, because a restarted broker in the same
// process is back within milliseconds.
func backoff(n int) time.Duration {
	return min(20*time.Millisecond<<min(n, 10), time.Second)
}

// Admin implements Cluster.
func (k *Kafka) Admin() Admin { return k.admin }

// Close implements Cluster.
func (k *Kafka) Close() { k.shared.Close() }

// kgoLogger hands kgo's warnings and errors to slog.
type kgoLogger struct{ log *slog.Logger }

func (l kgoLogger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelWarn) {
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelNone
}

func (l kgoLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelWarn
	if level == kgo.LogLevelError {
		to = slog.LevelError
	}
	l.log.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}

// domain turns a Kafka error into the port's.
func domain(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("%w: %w", ErrUnknownTopic, err)
	case errors.Is(err, kerr.OffsetOutOfRange):
		return fmt.Errorf("%w: %w", ErrOffsetOutOfRange, err)
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case unavailable(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// unavailable reports an error of a connection, or an answer that may be another one later.
func unavailable(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		return true
	}
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, io.ErrClosedPipe,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return notYet(err)
}
