package server

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// ApiVersions (key 18), versions 0 to 4.
//
//   - Lists what is really served, except that Produce and JoinGroup start at 0 (handlers.go).
//   - A version above 4 is answered in version 0 with error 35 and the range of this key alone,
//     and the connection stays open (KIP-511).
//   - The client's software name and version must look like ones (KIP-511).
//   - Features: only metadata.version is there. transaction.version is not finalized, so that no
//     client begins transactions of version 2 (KIP-890), which are not served; group.version is
//     not, since the group protocol of KIP-848 is not.
//
// Known gap: version 5 (KIP-1242) is not served.

// metadataVersion is the feature level of Kafka 4.3, which clients only display.
const metadataVersion = 30

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
	feature := kmsg.NewApiVersionsResponseSupportedFeature()
	feature.Name, feature.MinVersion, feature.MaxVersion = "metadata.version", 7, metadataVersion
	resp.SupportedFeatures = append(resp.SupportedFeatures, feature)
	final := kmsg.NewApiVersionsResponseFinalizedFeature()
	final.Name = "metadata.version"
	final.MinVersionLevel, final.MaxVersionLevel = metadataVersion, metadataVersion
	resp.FinalizedFeatures = append(resp.FinalizedFeatures, final)
	resp.FinalizedFeaturesEpoch = 0
	return resp, nil
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
