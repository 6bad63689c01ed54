package server

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// AlterUserScramCredentials (key 51), version 0 (KIP-554).
//
//   - Sets and deletes credentials; those of one user all or none, answered once.
//   - The client sends the salted password, of which only the two keys are kept.

func (s *Server) alterScram(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp := response[*kmsg.AlterUserSCRAMCredentialsResponse](r)
	var changes []controller.ScramChange
	for i := range req.Deletions {
		changes = append(changes, controller.ScramChange{User: req.Deletions[i].Name,
			Mechanism: metadata.ScramMechanism(req.Deletions[i].Mechanism), Delete: true})
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		changes = append(changes, controller.ScramChange{
			User: u.Name, Mechanism: metadata.ScramMechanism(u.Mechanism), Salt: u.Salt,
			SaltedPassword: u.SaltedPassword, Iterations: u.Iterations,
		})
	}
	errs, err := s.opts.Controller.AlterScram(ctx, changes)
	for _, user := range scramUsers(req) {
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User = user
		failure := err
		for i := range errs {
			if failure == nil && changes[i].User == user {
				failure = errs[i]
			}
		}
		setError(&out.ErrorCode, &out.ErrorMessage, failure)
		var refused *controller.Error
		if errors.As(failure, &refused) {
			out.ErrorMessage = &refused.Reason // Kafka's words
		}
		resp.Results = append(resp.Results, out)
		s.audit(r, "alter SCRAM credentials", failure, "user", user)
	}
	return resp, nil
}

// scramUsers returns the users that a request is about, each once.
func scramUsers(req *kmsg.AlterUserSCRAMCredentialsRequest) []string {
	var users []string
	add := func(user string) {
		if !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	for i := range req.Deletions {
		add(req.Deletions[i].Name)
	}
	for i := range req.Upsertions {
		add(req.Upsertions[i].Name)
	}
	return users
}
