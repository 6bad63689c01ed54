package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func guardCreateACLs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	resp := response[*kmsg.CreateACLsResponse](r)
	for range r.message.(*kmsg.CreateACLsRequest).Creations {
		out := kmsg.NewCreateACLsResponseResult()
		setCode(&out, codeCluster)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}

func guardDeleteACLs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	resp := response[*kmsg.DeleteACLsResponse](r)
	for range r.message.(*kmsg.DeleteACLsRequest).Filters {
		out := kmsg.NewDeleteACLsResponseResult()
		setCode(&out, codeCluster)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}

func guardLogDirMoves(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	req := r.message.(*kmsg.AlterReplicaLogDirsRequest)
	resp := response[*kmsg.AlterReplicaLogDirsResponse](r)
	for i := range req.Dirs {
		for _, in := range req.Dirs[i].Topics {
			t := kmsg.NewAlterReplicaLogDirsResponseTopic()
			t.Topic = in.Topic
			for _, index := range in.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition, p.ErrorCode = index, codeCluster
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp, nil
}

// guardLogDirs answers without directories; versions 1 and 2 have no place for a code.
func guardLogDirs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, describe) {
		return next(s, ctx, r)
	}
	return refuseAll(r, codeCluster), nil
}

func guardElections(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	req := r.message.(*kmsg.ElectLeadersRequest)
	resp := response[*kmsg.ElectLeadersResponse](r)
	resp.ErrorCode = codeCluster
	for _, in := range req.Topics {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = in.Topic
		for _, index := range in.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition = index
			setCode(&p, codeCluster)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func guardAlterQuotas(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, setConfigs) {
		return next(s, ctx, r)
	}
	resp := response[*kmsg.AlterClientQuotasResponse](r)
	for _, in := range r.message.(*kmsg.AlterClientQuotasRequest).Entries {
		out := kmsg.NewAlterClientQuotasResponseEntry()
		setCode(&out, codeCluster)
		for _, e := range in.Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = e.Type, e.Name
			out.Entity = append(out.Entity, entity)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp, nil
}

func guardAlterScram(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	resp := response[*kmsg.AlterUserSCRAMCredentialsResponse](r)
	for _, user := range scramUsers(r.message.(*kmsg.AlterUserSCRAMCredentialsRequest)) {
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User = user
		setCode(&out, codeCluster)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}
