package server

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
)

// ApiVersions (key 18), versions 0 to 4.
//
//   - Lists what is really served, except that Produce and JoinGroup start at 0 (handler_table.go).
//   - A version above 4 is answered in version 0 with error 35 and the range of this key alone, and
//     the connection stays open (KIP-511).
//   - The client's software name and version must look like ones (KIP-511).
//   - Features with the levels that UpdateFeatures gave them; a feature at level 0 is not listed.
//     The epoch rises with each change, by which clients see it (KIP-584).
//
// Known gap: version 5 (KIP-1242) is not served.

// softwareName is what KIP-511 allows as a client's software name and version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (s *Server) apiVersions(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ApiVersionsRequest)
	resp := response[*kmsg.ApiVersionsResponse](r)
	if r.version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) ||
		!softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	for i := range s.table.rows {
		resp.ApiKeys = append(resp.ApiKeys, apiVersion(&s.table.rows[i]))
	}
	s.addFeatures(resp, r.version)
	return resp, nil
}

// addFeatures tells the features that this build knows, and the levels that the cluster agreed on.
func (s *Server) addFeatures(resp *kmsg.ApiVersionsResponse, version int16) {
	image := s.image()
	for _, def := range metadata.FeatureDefs() {
		// Clients before version 4 take a least level of 0 for a fault (KAFKA-17011).
		if def.Max > 0 && (version >= 4 || def.Min > 0) {
			feature := kmsg.NewApiVersionsResponseSupportedFeature()
			feature.Name = def.Name
			feature.MinVersion, feature.MaxVersion = int16(def.Min), int16(def.Max)
			resp.SupportedFeatures = append(resp.SupportedFeatures, feature)
		}
		if level := int16(image.FeatureLevel(def.Name)); level > 0 {
			final := kmsg.NewApiVersionsResponseFinalizedFeature()
			final.Name, final.MinVersionLevel, final.MaxVersionLevel = def.Name, level, level
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, final)
		}
	}
	resp.FinalizedFeaturesEpoch = image.FeaturesEpoch()
}

func apiVersion(h *handler) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = h.key, h.min, h.max
	return k
}

// unsupportedApiVersions is the answer to a version that is not served.
func unsupportedApiVersions(h handler) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	if h.key == protocol.KeyApiVersions {
		resp.ApiKeys = append(resp.ApiKeys, apiVersion(&h))
	}
	return resp
}
