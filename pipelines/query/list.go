package query

import (
	"errors"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

// List tells what there is to look at in a pipeline.
func List(from Source, pipeline string) (*Listing, error) {
	if _, err := storesOf(from, pipeline, ""); err != nil {
		return nil, err
	}
	stores, _ := from.Stores(pipeline)
	out := &Listing{Pipeline: pipeline, Stores: []StoreStatus{}}
	for _, s := range stores {
		st := StoreStatus{Node: s.Node, Store: s.Name, Kind: s.Kind, Sub: s.Sub,
			Partitions: []Partition{}}
		for _, p := range s.Parts() {
			x, err := status(p)
			if err != nil {
				return nil, err
			}
			st.Partitions = append(st.Partitions, x)
			place := Place{p.Partition, p.Address}
			if p.Address != "" && !slices.Contains(out.Elsewhere, place) {
				out.Elsewhere = append(out.Elsewhere, place)
			}
		}
		out.Stores = append(out.Stores, st)
	}
	return out, nil
}

// status is where a task stands, also when its rows cannot be looked at.
func status(p *task.Part) (Partition, error) {
	out := absent(p)
	err := p.View(func(v *state.View, at task.Position) error {
		out = partitionOf(p, at, v.Size())
		return nil
	})
	if errors.Is(err, state.ErrClosed) || errors.Is(err, state.ErrLocked) {
		err = nil
	}
	return out, err
}
