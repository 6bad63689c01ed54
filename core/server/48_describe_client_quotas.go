package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeClientQuotas (key 48), versions 0 and 1.
//
//   - Entities whose parts match all components (KIP-546): by name, as the default, or either.
//     Strict leaves those out that have other parts too.
//   - Components of one type twice, or of addresses with others, are INVALID_REQUEST; types that
//     are not known are UNSUPPORTED_VERSION.

func (s *Server) describeClientQuotas(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeClientQuotasRequest)
	resp := response[*kmsg.DescribeClientQuotasResponse](r)
	filter, err := newQuotaFilter(req)
	if err != nil {
		setError(&resp.ErrorCode, &resp.ErrorMessage, err)
		return resp, nil // its entries are null
	}
	resp.Entries, resp.ErrorMessage = []kmsg.DescribeClientQuotasResponseEntry{}, pointer("")
	quotas := s.image().ClientQuotas()
	for _, e := range quotas.Entities() {
		if !filter.matches(e) {
			continue
		}
		out := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, kind := range metadata.QuotaTypes {
			if p := e.Part(kind); p.Kind != metadata.QuotaAbsent {
				part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
				if part.Type = kind; p.Kind == metadata.QuotaNamed {
					part.Name = &p.Name
				}
				out.Entity = append(out.Entity, part)
			}
		}
		values := quotas.Get(e)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := kmsg.NewDescribeClientQuotasResponseEntryValue()
			value.Key, value.Value = key, values[key]
			out.Values = append(out.Values, value)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp, nil
}

// refuseRequest is an error of a kind with a text of its own.
func refuseRequest(kind error, format string, args ...any) error {
	return &controller.Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// quotaFilter is what an entity must look like.
type quotaFilter struct {
	// wanted has the parts that are asked for by name or as the default; the Kind of the others is
	// QuotaAbsent.
	wanted metadata.QuotaEntity
	// either has the types of which any part will do.
	either []string
	strict bool
}

func newQuotaFilter(req *kmsg.DescribeClientQuotasRequest) (f quotaFilter, err error) {
	f.strict = req.Strict
	refuse := func(format string, args ...any) (quotaFilter, error) {
		return f, refuseRequest(kerr.InvalidRequest, format, args...)
	}
	var seen []string
	for i := range req.Components {
		c := &req.Components[i]
		part := f.wanted.Part(c.EntityType)
		switch named := c.Match != nil; {
		case c.EntityType == "":
			return refuse("Invalid empty entity type.")
		case slices.Contains(seen, c.EntityType):
			return refuse("Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case part == nil:
			return f, refuseRequest(kerr.UnsupportedVersion, "Unsupported entity type %s", c.EntityType)
		case c.MatchType == kmsg.QuotasMatchTypeExact && named:
			*part = metadata.NamedQuota(*c.Match)
		case c.MatchType == kmsg.QuotasMatchTypeDefault && !named:
			*part = metadata.DefaultQuota
		case c.MatchType == kmsg.QuotasMatchTypeAny && !named:
			f.either = append(f.either, c.EntityType)
		case c.MatchType == kmsg.QuotasMatchTypeExact:
			return refuse("Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case c.MatchType == kmsg.QuotasMatchTypeDefault:
			return refuse("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case c.MatchType == kmsg.QuotasMatchTypeAny:
			return refuse("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		default:
			return refuse("Unknown match type %d", c.MatchType)
		}
		seen = append(seen, c.EntityType)
	}
	if slices.Contains(seen, metadata.QuotaIP) && len(seen) > 1 {
		return refuse("Invalid entity filter component combination. IP filter component should not " +
			"be used with user or clientId filter component.")
	}
	return f, nil
}

func (f *quotaFilter) matches(e metadata.QuotaEntity) bool {
	for _, kind := range metadata.QuotaTypes {
		has, want := e.Part(kind), f.wanted.Part(kind)
		switch {
		case slices.Contains(f.either, kind):
			if has.Kind == metadata.QuotaAbsent {
				return false
			}
		case want.Kind != metadata.QuotaAbsent:
			if *has != *want {
				return false
			}
		case f.strict && has.Kind != metadata.QuotaAbsent:
			return false
		}
	}
	return true
}
