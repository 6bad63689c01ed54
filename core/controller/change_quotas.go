package controller

import (
	"context"

	"github.com/millstream-io/millstream/core/metadata"
)

// QuotaAlteration changes the client quotas of one entity, all or none.
type QuotaAlteration struct {
	Entity metadata.QuotaEntity
	Ops    []QuotaOp
}

// QuotaOp sets one quota, or removes it where Value is nil.
type QuotaOp struct {
	Key   string
	Value *float64
}

// AlterClientQuotas changes client quotas. The errors, nil for what is done, are in the order of
// the alterations. With validateOnly nothing changes.
func (c *Controller) AlterClientQuotas(
	ctx context.Context, alterations []QuotaAlteration, validateOnly bool,
) ([]error, error) {
	var replies []*storedError
	if err := c.do(ctx, &alterClientQuotas{alterations, validateOnly}, &replies); err != nil {
		return nil, err
	}
	errs := make([]error, len(replies))
	for i, r := range replies {
		errs[i] = r.err()
	}
	return errs, nil
}

type alterClientQuotas struct {
	alterations  []QuotaAlteration
	validateOnly bool
}

func (c *alterClientQuotas) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]*storedError, len(c.alterations))
	seen := make(map[metadata.QuotaEntity]int)
	for _, a := range c.alterations {
		seen[a.Entity]++
	}
	for i, a := range c.alterations {
		if seen[a.Entity] > 1 {
			replies[i] = storeError(refuse(ErrInvalidRequest,
				"Ignoring duplicate entity %s", a.Entity))
			continue
		}
		made, refused := planQuotas(img, a)
		replies[i] = storeError(refused)
		records = append(records, made...)
	}
	if c.validateOnly {
		return nil, replies
	}
	return records, replies
}

// planQuotas makes the records of one alteration, only of what changes.
func planQuotas(img *metadata.Image, a QuotaAlteration) ([]metadata.Record, *Error) {
	if err := a.Entity.Validate(); err != nil {
		return nil, refuse(ErrInvalidRequest, "%v", err)
	}
	var records []metadata.Record
	before := img.ClientQuotas().Get(a.Entity)
	seen := make(map[string]bool)
	for _, op := range a.Ops {
		if seen[op.Key] {
			return nil, refuse(ErrInvalidRequest, "Ignoring duplicate entity %s", a.Entity)
		}
		seen[op.Key] = true
		old, was := before[op.Key]
		if op.Value == nil {
			if was {
				records = append(records, metadata.NewClientQuotaRecord(a.Entity, op.Key, nil))
			}
			continue
		}
		if err := a.Entity.ValidateQuota(op.Key, *op.Value); err != nil {
			return nil, refuse(ErrInvalidRequest, "%v", err)
		}
		if !was || old != *op.Value {
			records = append(records, metadata.NewClientQuotaRecord(a.Entity, op.Key, op.Value))
		}
	}
	return records, nil
}
