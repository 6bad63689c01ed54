package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The control topics.
const (
	RevisionTopic = "__millstream_pipelines"
	StatusTopic   = "__millstream_status"
	LogTopic      = "__millstream_logs"
)

// Errors of a [Store].
var (
	// ErrUnknownPipeline means that no revision of that name exists.
	ErrUnknownPipeline = errors.New("no such pipeline")
	// ErrUnreadable means that what is stored under a name is no revision.
	ErrUnreadable = errors.New("the stored revision cannot be read")
	// ErrConflict means that somebody else applied the same revision number first.
	ErrConflict = errors.New("another revision was applied at the same time")
)

// Connect makes a client of the cluster with the given options added.
type Connect func(...kgo.Opt) (*kgo.Client, error)

// Store reads and writes the control topics.
type Store struct {
	connect Connect
	client  *kgo.Client
	now     func() time.Time
}

// OpenStore connects and makes sure the control topics exist.
func OpenStore(ctx context.Context, connect Connect) (*Store, error) {
	client, err := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, fmt.Errorf("connect to the control topics: %w", err)
	}
	s := &Store{connect: connect, client: client, now: time.Now}
	if err := s.createTopics(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the connection.
func (s *Store) Close() { s.client.Close() }

func (s *Store) createTopics(ctx context.Context) error {
	compacted, deleted := "compact", "delete"
	day, small := "86400000", "16777216" // what is read as a whole is cleaned early
	minutes := "600000"
	for topic, configs := range map[string]map[string]*string{
		RevisionTopic: {"cleanup.policy": &compacted},
		StatusTopic:   {"cleanup.policy": &compacted, "segment.bytes": &small},
		LogTopic:      {"cleanup.policy": &deleted, "retention.ms": &day},
		TailTopic: {"cleanup.policy": &deleted, "retention.ms": &minutes,
			"segment.bytes": &small},
	} {
		partitions := int32(1)
		if topic == TailTopic {
			partitions = 2
		}
		_, err := kadm.NewClient(s.client).CreateTopic(ctx, partitions, -1, configs, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

// Apply appends a new revision and returns it with its number. The text must have passed the
// checks. What the pipeline has stored is kept.
func (s *Store) Apply(ctx context.Context, r Revision) (Revision, error) {
	last, err := s.last(ctx, r.Name)
	if err != nil {
		return Revision{}, err
	}
	r.Generation, r.Start = last.Generation, last.Start
	return s.apply(ctx, r, last.Number)
}

// NextGeneration is the generation that a Reset begins.
func (s *Store) NextGeneration(ctx context.Context, name string) (int, error) {
	last, err := s.last(ctx, name)
	return last.Generation + 1, err
}

// abandonedAfter is after how long a revision that is in the history alone is given up by who wrote
// it: a crash may come between the two records of an Apply.
const abandonedAfter = time.Minute

// Follow is Apply of the revision that is wanted now with what a worker has found since. If it is
// not wanted any more, or somebody is about to apply another one, that is an ErrConflict.
func (s *Store) Follow(ctx context.Context, r Revision) (Revision, error) {
	now, err := s.stillWanted(ctx, r)
	if err != nil {
		return Revision{}, err
	}
	last, err := s.last(ctx, r.Name)
	if err != nil {
		return Revision{}, err
	}
	if last.Number != now.Number && s.now().Sub(last.AppliedAt) < abandonedAfter {
		return Revision{}, fmt.Errorf("revision %d of %s is being applied: %w", last.Number, r.Name,
			ErrConflict)
	}
	now.Matched = r.Matched
	next, err := s.propose(ctx, now, last.Number)
	if err != nil {
		return Revision{}, err
	}
	if _, err := s.stillWanted(ctx, r); err != nil { // an order that came meanwhile is not undone
		return Revision{}, err
	}
	return next, s.produce(ctx, RevisionTopic, next.Name, next)
}

// stillWanted gives a revision as it is wanted now, to run; else that is an ErrConflict.
func (s *Store) stillWanted(ctx context.Context, r Revision) (Revision, error) {
	now, err := s.Get(ctx, r.Name)
	switch {
	case errors.Is(err, ErrUnknownPipeline), errors.Is(err, ErrUnreadable):
		return Revision{}, fmt.Errorf("revision %d of %s: %w: %w", r.Number, r.Name, ErrConflict, err)
	case err != nil:
		return Revision{}, err
	case now.Number != r.Number:
		return Revision{}, fmt.Errorf("revision %d of %s is wanted, not %d: %w", now.Number, r.Name,
			r.Number, ErrConflict)
	case now.Wanted != WantRunning:
		return Revision{}, fmt.Errorf("revision %d of %s is wanted %s: %w", r.Number, r.Name,
			now.Wanted, ErrConflict)
	}
	return now, nil
}

// Reset appends a new revision that begins anew, without what the pipeline has stored, and reads
// its topics from start on.
func (s *Store) Reset(ctx context.Context, r Revision, start map[string]map[int32]int64,
) (Revision, error) {
	last, err := s.last(ctx, r.Name)
	if err != nil {
		return Revision{}, err
	}
	r.Generation, r.Start = last.Generation+1, start
	return s.apply(ctx, r, last.Number)
}

func (s *Store) apply(ctx context.Context, r Revision, last int) (Revision, error) {
	r, err := s.propose(ctx, r, last)
	if err != nil {
		return Revision{}, err
	}
	return r, s.produce(ctx, RevisionTopic, r.Name, r)
}

// propose takes the number behind last, in the history: nobody runs the revision yet.
func (s *Store) propose(ctx context.Context, r Revision, last int) (Revision, error) {
	r.Number = last + 1
	r.ID = uuid.NewString()
	r.AppliedAt = s.now().UTC()
	if r.Wanted == "" {
		r.Wanted = WantRunning
	}
	if err := s.produce(ctx, RevisionTopic, historyKey(r), r); err != nil {
		return Revision{}, err
	}
	return r, s.confirm(ctx, r)
}

// last is the last revision, the zero one before the first. A pipeline that was forgotten or cannot
// be read goes on with the numbers of its history.
func (s *Store) last(ctx context.Context, name string) (Revision, error) {
	past, err := s.History(ctx, name)
	if err != nil || len(past) == 0 {
		return Revision{}, err
	}
	return past[len(past)-1], nil
}

// confirm re-reads the log: the first record of a number is the one that counts.
func (s *Store) confirm(ctx context.Context, r Revision) error {
	past, err := s.History(ctx, r.Name)
	if err != nil {
		return err
	}
	for _, other := range past {
		if other.Number == r.Number && other.ID == r.ID {
			return nil
		}
	}
	return fmt.Errorf("apply revision %d of %s: %w", r.Number, r.Name, ErrConflict)
}

// SetWanted starts or stops a pipeline without changing its revision. It no longer skips lost
// records.
func (s *Store) SetWanted(ctx context.Context, name string, wanted Wanted) (Revision, error) {
	return s.want(ctx, name, wanted, false)
}

// StartSkipping starts a pipeline, behind records that were deleted before it has read them.
func (s *Store) StartSkipping(ctx context.Context, name string) (Revision, error) {
	return s.want(ctx, name, WantRunning, true)
}

func (s *Store) want(ctx context.Context, name string, wanted Wanted, skipLost bool,
) (Revision, error) {
	for {
		r, err := s.Get(ctx, name)
		if err != nil {
			return Revision{}, err
		}
		r.Wanted, r.SkipLost = wanted, skipLost
		if err := s.produce(ctx, RevisionTopic, r.Name, r); err != nil {
			return Revision{}, err
		}
		now, err := s.Get(ctx, name)
		if err != nil || now.Number == r.Number {
			return r, err
		}
		// A revision was applied meanwhile and counts more: it is the one to start or stop.
	}
}

// Delete forgets a pipeline; its history stays.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := s.produce(ctx, RevisionTopic, name, nil); err != nil {
		return err
	}
	return s.deleteStatus(ctx, name)
}

// historyKey is never the same for two writers, so compaction keeps all that was written and the
// log goes on telling who was first.
func historyKey(r Revision) string { return fmt.Sprintf("%s@%d@%s", r.Name, r.Number, r.ID) }

// WriteStatus publishes how a pipeline does.
func (s *Store) WriteStatus(ctx context.Context, st Status) error {
	st.At = s.now().UTC()
	return s.produce(ctx, StatusTopic, st.Name, st)
}

// produce writes one record and waits until it is durable or ctx ends. A nil value is a tombstone.
// Only the wait ends then: a record on its way cannot be given up, and giving up others would give
// up what follows them, too. If too many are on their way already, that is an error at once.
func (s *Store) produce(ctx context.Context, topic, key string, value any) error {
	rec := &kgo.Record{Topic: topic, Key: []byte(key)}
	if value != nil {
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		rec.Value = data
	}
	answered := make(chan error, 1)
	s.client.TryProduce(context.WithoutCancel(ctx), rec,
		func(_ *kgo.Record, err error) { answered <- err })
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("write %s to %s: %w", key, topic, err)
	}
	return nil
}

// Get gives the wanted revision of a pipeline.
func (s *Store) Get(ctx context.Context, name string) (Revision, error) {
	all, err := s.wanted(ctx)
	if err != nil {
		return Revision{}, err
	}
	if r, ok := all.values[name]; ok {
		return r, nil
	}
	if why, ok := all.unreadable[name]; ok {
		return Revision{}, fmt.Errorf("pipeline %q: %w: %w", name, ErrUnreadable, why)
	}
	return Revision{}, fmt.Errorf("pipeline %q: %w", name, ErrUnknownPipeline)
}

// List gives the wanted revision of every pipeline, by name. One that cannot be read is left out;
// Get tells why.
func (s *Store) List(ctx context.Context) ([]Revision, error) {
	all, err := s.wanted(ctx)
	return all.sorted(), err
}

// wanted reads what is wanted of every pipeline.
func (s *Store) wanted(ctx context.Context) (folded[Revision], error) {
	return latest(ctx, s, RevisionTopic, func(r Revision) string { return r.Name },
		func(old, now Revision) bool { return now.Number >= old.Number }, func(*kgo.Record) {})
}

// History gives all revisions of a pipeline, the oldest first.
func (s *Store) History(ctx context.Context, name string) ([]Revision, error) {
	var all []Revision
	err := s.scan(ctx, RevisionTopic, func(rec *kgo.Record) error {
		if !strings.HasPrefix(string(rec.Key), name+"@") || rec.Value == nil {
			return nil
		}
		var r Revision
		if json.Unmarshal(rec.Value, &r) != nil || r.Name != name {
			return nil // not written by a Store
		}
		if len(all) == 0 || r.Number > all[len(all)-1].Number { // the first of a number counts
			all = append(all, r)
		}
		return nil
	})
	return all, err
}

// folded is a compacted topic: the last value of each key.
type folded[T any] struct {
	values map[string]T
	// unreadable are keys whose last value is not one, and why.
	unreadable map[string]error
	end        int64 // offset it was read to
}

func (f folded[T]) sorted() []T {
	out := make([]T, 0, len(f.values))
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		out = append(out, f.values[name])
	}
	return out
}

// latest folds a compacted topic without the keys of more than a name, which others gets. newer
// tells whether a value replaces one that was written before it.
func latest[T any](
	ctx context.Context, s *Store, topic string, name func(T) string, newer func(old, now T) bool,
	others func(*kgo.Record),
) (folded[T], error) {
	f := folded[T]{values: map[string]T{}, unreadable: map[string]error{}}
	end, err := s.scanTo(ctx, topic, func(rec *kgo.Record) error {
		key := string(rec.Key)
		if strings.Contains(key, "@") {
			others(rec)
			return nil
		}
		delete(f.unreadable, key)
		if rec.Value == nil {
			delete(f.values, key)
			return nil
		}
		var v T
		err := json.Unmarshal(rec.Value, &v)
		if err == nil && name(v) != key {
			err = fmt.Errorf("it is named %q", name(v))
		}
		if err != nil {
			f.unreadable[key] = fmt.Errorf("%s-0 offset %d: %w", topic, rec.Offset, err)
			delete(f.values, key)
			return nil
		}
		if old, ok := f.values[key]; !ok || newer(old, v) {
			f.values[key] = v
		}
		return nil
	})
	f.end = end
	return f, err
}

// scan reads a control topic from its start to its present end.
func (s *Store) scan(ctx context.Context, topic string, fn func(*kgo.Record) error) error {
	_, err := s.scanTo(ctx, topic, fn)
	return err
}

// scanTo is scan with the end offset it read to.
func (s *Store) scanTo(
	ctx context.Context, topic string, fn func(*kgo.Record) error,
) (int64, error) {
	adm := kadm.NewClient(s.client)
	start, err := edge(ctx, adm.ListStartOffsets, topic)
	if err != nil {
		return 0, err
	}
	end, err := edge(ctx, adm.ListEndOffsets, topic)
	if err != nil || start >= end { // empty: there is no record to wait for
		return end, err
	}
	return end, s.follow(ctx, topic, func(rec *kgo.Record) (bool, error) {
		return rec.Offset+1 >= end, fn(rec)
	})
}

func edge(
	ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error),
	topic string,
) (int64, error) {
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	return listed[topic][0].Offset, nil
}

// follow reads a control topic from its start until fn says it is enough.
func (s *Store) follow(
	ctx context.Context, topic string, fn func(*kgo.Record) (enough bool, err error),
) error {
	return s.followFrom(ctx, topic, 0, -2, fn) // -2 is the start
}

// followFrom reads a partition of a control topic from an offset on.
func (s *Store) followFrom(
	ctx context.Context, topic string, partition int32, from int64,
	fn func(*kgo.Record) (enough bool, err error),
) error {
	reader, err := s.connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().At(from)},
	}))
	if err != nil {
		return fmt.Errorf("connect to read %s: %w", topic, err)
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return fmt.Errorf("read %s: %w", topic, errs[0].Err)
		}
		for _, rec := range fetches.Records() {
			enough, err := fn(rec)
			if err != nil || enough {
				return err
			}
		}
	}
}
