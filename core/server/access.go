package server

import (
	"context"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
)

// guardFunc lets a request through to next, or that part of it that its client may have done, and
// answers the rest. It runs only where access is controlled.
type guardFunc func(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error)

// accessRow says what access an API needs.
type accessRow struct {
	// needs are all that are asked for, each by itself.
	needs []need
	// guard asks for them; nil where the handler does so itself, or where nothing is needed.
	guard guardFunc
}

// need is one thing that an API asks for.
type need struct {
	// anyOf are the grants of which one is enough.
	anyOf []grant
	// code is the answer without: 0 where what may not be seen is left out.
	code int16
}

// grant is an operation on a kind of resource.
type grant struct {
	kind metadata.ACLResourceType
	op   metadata.ACLOperation
}

// The codes of refused access.
var (
	codeTopic   = kerr.TopicAuthorizationFailed.Code
	codeGroup   = kerr.GroupAuthorizationFailed.Code
	codeCluster = kerr.ClusterAuthorizationFailed.Code
	codeTxn     = kerr.TransactionalIDAuthorizationFailed.Code
)

// refusals are what clients are told with the codes, as Kafka says it.
var refusals = map[int16]string{
	codeTopic:   "Topic authorization failed.",
	codeGroup:   "Group authorization failed.",
	codeCluster: "Cluster authorization failed.",
	codeTxn:     "Transactional Id authorization failed.",
}

// guarded handles a request whose API has the row that access has for it. An API without a row is
// not served where access is controlled: nobody said who may use it.
func (s *Server) guarded(ctx context.Context, h *handler, r *request) (kmsg.Response, error) {
	if s.opts.Authorizer == nil || r.client.trusted {
		return h.handle(s, ctx, r)
	}
	row, ok := accessTable[h.key]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s has no rule of access", protocol.KeyName(h.key))
	case row.guard == nil:
		return h.handle(s, ctx, r)
	}
	return row.guard(s, ctx, r, h.handle)
}

// refuseAll is the answer to a request that is refused as a whole.
func refuseAll(r *request, code int16) kmsg.Response {
	resp := r.message.ResponseKind()
	setCode(resp, code)
	return resp
}

// setCode sets the code of an answer, or of a part of one, and the message if there is a place.
func setCode(v any, code int16) {
	fields := reflect.ValueOf(v).Elem()
	fields.FieldByName("ErrorCode").SetInt(int64(code))
	message := fields.FieldByName("ErrorMessage")
	switch {
	case !message.IsValid():
	case message.Kind() == reflect.String:
		message.SetString(refusals[code])
	default:
		message.Set(reflect.ValueOf(pointer(refusals[code])))
	}
}

// onCluster guards an API that needs an operation on the cluster.
func onCluster(op metadata.ACLOperation) guardFunc {
	return func(s *Server, ctx context.Context, r *request, next handlerFunc) (kmsg.Response, error) {
		if !s.mayCluster(r.client, op) {
			return refuseAll(r, codeCluster), nil
		}
		return next(s, ctx, r)
	}
}

// onGroup guards an API that is about one group.
func onGroup(op metadata.ACLOperation, group func(kmsg.Request) string) guardFunc {
	return func(s *Server, ctx context.Context, r *request, next handlerFunc) (kmsg.Response, error) {
		if !s.may(r.client, op, metadata.ACLGroup, group(r.message)) {
			return refuseAll(r, codeGroup), nil
		}
		return next(s, ctx, r)
	}
}

// split takes the elements that are not allowed out of a list. A list that is not null stays so,
// since null often means all.
func split[T any](list *[]T, allowed func(*T) bool) (refused []T) {
	kept := (*list)[:0:0]
	if *list != nil {
		kept = make([]T, 0, len(*list))
	}
	for i := range *list {
		if allowed(&(*list)[i]) {
			kept = append(kept, (*list)[i])
		} else {
			refused = append(refused, (*list)[i])
		}
	}
	*list = kept
	return refused
}

// mayTopic tells whether the client may do op on a topic.
func (s *Server) mayTopic(r *request, op metadata.ACLOperation, topic string) bool {
	return s.may(r.client, op, metadata.ACLTopic, topic)
}

// seesTopic is mayTopic without a word about a refusal.
func (s *Server) seesTopic(r *request, op metadata.ACLOperation, topic string) bool {
	return s.sees(r.client, op, metadata.ACLTopic, topic)
}

// mayTopicID is mayTopic by name or, where that is empty, by id. An id that does not exist tells
// nothing, so it is let through.
func (s *Server) mayTopicID(r *request, op metadata.ACLOperation, name string, id [16]byte) bool {
	name, ok := s.nameOf(name, id)
	return !ok || s.mayTopic(r, op, name)
}

func (s *Server) seesTopicID(r *request, op metadata.ACLOperation, name string, id [16]byte) bool {
	name, ok := s.nameOf(name, id)
	return !ok || s.seesTopic(r, op, name)
}

// nameOf returns the name of a topic that is named or has the id; not ok if no topic has it.
func (s *Server) nameOf(name string, id [16]byte) (string, bool) {
	if name != "" || id == ([16]byte{}) {
		return name, true
	}
	t, ok := s.image().TopicByID(id)
	if !ok {
		return "", false
	}
	return t.Name, true
}

func (s *Server) mayGroup(r *request, op metadata.ACLOperation, group string) bool {
	return s.may(r.client, op, metadata.ACLGroup, group)
}

func (s *Server) mayTxn(r *request, op metadata.ACLOperation, id string) bool {
	return s.may(r.client, op, metadata.ACLTransactionalID, id)
}
