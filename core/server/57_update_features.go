package server

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// UpdateFeatures (key 57), versions 0 to 2 (KIP-584, KIP-1022).
//
//   - All updates are done or none; INVALID_UPDATE_VERSION in the answer says which.
//   - Upgrade (1), safe (2) and unsafe downgrade (3); the two are the same here. Version 0 can only
//     go up. Level 0 switches a feature off.
//   - Results for each feature only up to version 1, as in Kafka.

func (s *Server) updateFeatures(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.UpdateFeaturesRequest)
	resp := response[*kmsg.UpdateFeaturesResponse](r)
	updates := make([]controller.FeatureUpdate, 0, len(req.FeatureUpdates))
	var refused error
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		if r.version >= 1 && (u.UpgradeType < 1 || u.UpgradeType > 3) {
			refused = &controller.Error{Kind: controller.ErrInvalidUpdateVersion, Reason: fmt.Sprintf(
				"The update failed for all features since the following feature had an error: Invalid "+
					"update version %d for feature %s. The controller does not support the given "+
					"upgrade type.", u.MaxVersionLevel, u.Feature)}
		}
		updates = append(updates, controller.FeatureUpdate{
			Name: u.Feature, Level: metadata.FeatureLevel(u.MaxVersionLevel),
			Downgrade: r.version >= 1 && u.UpgradeType > 1,
		})
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	if refused == nil {
		refused = s.opts.Controller.UpdateFeatures(ctx, updates, r.version >= 1 && req.ValidateOnly)
	}
	setError(&resp.ErrorCode, &resp.ErrorMessage, refused)
	if r.version <= 1 && refused == nil {
		for i := range updates {
			result := kmsg.NewUpdateFeaturesResponseResult()
			result.Feature = updates[i].Name
			resp.Results = append(resp.Results, result)
		}
	}
	return resp, nil
}
