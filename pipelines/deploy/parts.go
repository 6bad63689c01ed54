package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partKey is under which a worker tells of the tasks it runs.
func partKey(name, worker string) string { return name + "@" + worker }

// writePart publishes what one of several workers says of a pipeline, and tells how large it is.
func (s *Store) writePart(ctx context.Context, p Part) (size int, err error) {
	p.At = s.now().UTC()
	data, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("encode part of %s: %w", p.Name, err)
	}
	return len(data), s.produce(ctx, StatusTopic, partKey(p.Name, p.Worker), json.RawMessage(data))
}

// Statuses gives how the pipelines do, by name: what was last reported of each, with the tasks of
// all its workers.
func (s *Store) Statuses(ctx context.Context) ([]Status, error) {
	found, parts, err := s.reported(ctx)
	if err != nil {
		return nil, err
	}
	all := found.sorted()
	for i := range all {
		if all[i].Worker != "" {
			all[i] = all[i].Total(parts[all[i].Name])
		}
		all[i].lagging(s.now())
	}
	return all, nil
}

// reported reads what those who speak for the pipelines have written, and what the workers have.
func (s *Store) reported(ctx context.Context) (folded[Status], map[string][]Part, error) {
	byKey := map[string]Part{}
	f, err := latest(ctx, s, StatusTopic, func(st Status) string { return st.Name },
		func(Status, Status) bool { return true },
		func(rec *kgo.Record) {
			key := string(rec.Key)
			var p Part
			if rec.Value == nil || json.Unmarshal(rec.Value, &p) != nil ||
				partKey(p.Name, p.Worker) != key {
				delete(byKey, key)
				return
			}
			byKey[key] = p
		})
	parts := map[string][]Part{}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		parts[byKey[key].Name] = append(parts[byKey[key].Name], byKey[key])
	}
	return f, parts, err
}

// base is what was last reported of one pipeline, without the tasks.
func (s *Store) base(ctx context.Context, name string) (Status, bool, error) {
	found, _, err := s.reported(ctx)
	st, ok := found.values[name]
	return st, ok, err
}

// deleteStatus forgets what was reported of a pipeline, by whomever.
func (s *Store) deleteStatus(ctx context.Context, name string) error {
	_, parts, err := s.reported(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts[name] {
		if err := s.produce(ctx, StatusTopic, partKey(p.Name, p.Worker), nil); err != nil {
			return err
		}
	}
	return s.produce(ctx, StatusTopic, name, nil)
}
