package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeUserScramCredentials (key 50), version 0 (KIP-554).
//
//   - The mechanisms and iterations of users, never a salt or a key. No users asked for is all.
//   - A user without credentials is RESOURCE_NOT_FOUND, one named twice DUPLICATE_RESOURCE.

func (s *Server) describeScram(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := response[*kmsg.DescribeUserSCRAMCredentialsResponse](r)
	infos := make(map[string][]kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo)
	var users []string
	for _, c := range s.image().ScramCredentials() {
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = int8(c.Mechanism), c.Iterations
		if infos[c.User] == nil {
			users = append(users, c.User)
		}
		infos[c.User] = append(infos[c.User], info)
	}
	count := make(map[string]int)
	if len(req.Users) > 0 {
		users = nil
		for i := range req.Users {
			if count[req.Users[i].Name]++; count[req.Users[i].Name] == 1 {
				users = append(users, req.Users[i].Name)
			}
		}
	}
	for _, user := range users {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User = user
		switch {
		case count[user] > 1:
			out.ErrorCode = kerr.DuplicateResource.Code
			out.ErrorMessage = pointer("Cannot describe SCRAM credentials for the same user twice in a " +
				"single request: " + user)
		case infos[user] == nil:
			out.ErrorCode = kerr.ResourceNotFound.Code
			out.ErrorMessage = pointer(
				"Attempt to describe a user credential that does not exist: " + user)
		}
		if out.ErrorCode == 0 {
			out.CredentialInfos = slices.Clone(infos[user])
		}
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}
