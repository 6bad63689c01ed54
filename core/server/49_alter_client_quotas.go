package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// AlterClientQuotas (key 49), versions 0 and 1.
//
//   - Users, client ids, client ids of users, addresses, and the defaults of each (KIP-546).
//   - The quotas of an entity change all or none; one that is named twice, or a key twice, is
//     INVALID_REQUEST.
//   - Addresses are numbers, not names of hosts, which Kafka looks up.

func (s *Server) alterClientQuotas(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterClientQuotasRequest)
	resp := response[*kmsg.AlterClientQuotasResponse](r)
	resp.Entries = []kmsg.AlterClientQuotasResponseEntry{}
	var asked []controller.QuotaAlteration
	refused := make([]error, len(req.Entries)) // these do not reach the controller
	for i := range req.Entries {
		var a controller.QuotaAlteration
		if a, refused[i] = quotaAlteration(&req.Entries[i]); refused[i] == nil {
			asked = append(asked, a)
		}
	}
	var errs []error
	var err error
	if len(asked) > 0 {
		errs, err = s.opts.Controller.AlterClientQuotas(ctx, asked, req.ValidateOnly)
	}
	for i := range req.Entries {
		out := kmsg.NewAlterClientQuotasResponseEntry()
		for _, part := range req.Entries[i].Entity {
			p := kmsg.NewAlterClientQuotasResponseEntryEntity()
			p.Type, p.Name = part.Type, part.Name
			out.Entity = append(out.Entity, p)
		}
		failure := firstError(refused[i], err)
		if failure == nil {
			failure, errs = errs[0], errs[1:]
		}
		setError(&out.ErrorCode, &out.ErrorMessage, failure)
		resp.Entries = append(resp.Entries, out)
	}
	return resp, nil
}

// quotaAlteration turns an entry of the request into what the controller takes.
func quotaAlteration(
	in *kmsg.AlterClientQuotasRequestEntry,
) (a controller.QuotaAlteration, err error) {
	for i := range in.Entity {
		part := a.Entity.Part(in.Entity[i].Type)
		switch {
		case part == nil:
			return a, refuseRequest(kerr.InvalidRequest,
				"Unhandled client quota entity type: %s", in.Entity[i].Type)
		case in.Entity[i].Name != nil:
			*part = metadata.NamedQuota(*in.Entity[i].Name)
		default:
			*part = metadata.DefaultQuota
		}
	}
	for i := range in.Ops {
		op := controller.QuotaOp{Key: in.Ops[i].Key}
		if !in.Ops[i].Remove {
			op.Value = &in.Ops[i].Value
		}
		a.Ops = append(a.Ops, op)
	}
	return a, nil
}
