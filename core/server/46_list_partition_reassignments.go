package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments (key 46), version 0 (KIP-455).
//
//   - No move is ever under way, since there is one broker.

func (s *Server) listPartitionReassignments(
	_ context.Context, r *request,
) (kmsg.Response, error) {
	return response[*kmsg.ListPartitionReassignmentsResponse](r), nil
}
