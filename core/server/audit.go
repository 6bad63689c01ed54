package server

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
)

// The audit log are the lines with an attribute audit: access (what was denied), admin (what was
// asked to be changed, by whom and with what outcome) and login. They have names of things and
// never their values, which may be secrets. What anybody can cause is limited to some lines a
// second, and so is what changed nothing; what did is not.

// denied logs that a client may not do something.
func (s *Server) denied(c *client, op metadata.ACLOperation, kind metadata.ACLResourceType,
	name string,
) {
	s.count.denied.Add(1)
	if !s.denials.allow() {
		return
	}
	s.log.Warn("access denied", "audit", "access", "principal", c.Principal, "client", c.Host,
		"listener", c.listener, "operation", op.String(), "resource", kind.String(), "name", short(name))
}

// audit logs what an administrator changed, or failed to.
func (s *Server) audit(r *request, what string, err error, args ...any) {
	args = append(args, "audit", "admin", "principal", r.client.Principal, "client", r.clientHost)
	if err != nil {
		if !s.refusedChanges.allow() {
			return
		}
		s.log.Warn("refused: "+what, append(args, "error", err.Error())...)
		return
	}
	s.log.Info(what, args...)
}

// maxAudited bounds the names of one line.
const maxAudited = 20

// auditRequest logs a request that changes something, once it is answered. One that was refused as
// a whole was logged as a denial.
func (s *Server) auditRequest(r *request, resp kmsg.Response) {
	names, ok := audited(r.message)
	if !ok || r.client.trusted {
		return
	}
	var codes []string
	refused, changed := true, false
	for _, code := range distinctCodes(reflect.ValueOf(resp), nil) {
		refused = refused && refusals[code] != ""
		if changed = changed || code == 0; code != 0 {
			codes = append(codes, strconv.Itoa(int(code)))
		}
	}
	if refused || !changed && !s.refusedChanges.allow() {
		return
	}
	if len(names) > maxAudited {
		names = append(slices.Clone(names[:maxAudited]), fmt.Sprintf("and %d more",
			len(names)-maxAudited))
	}
	for i := range names {
		names[i] = short(names[i])
	}
	s.log.Info(protocol.KeyName(r.message.Key()), "audit", "admin", "principal", r.client.Principal,
		"client", r.clientHost, "listener", r.client.listener, "names", strings.Join(names, ", "),
		"errors", strings.Join(codes, ", "))
}

// short bounds a name that a client made up.
func short(name string) string {
	const most = 249
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}

// distinctCodes returns the error codes in an answer, each once.
func distinctCodes(v reflect.Value, codes []int16) []int16 {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return distinctCodes(v.Elem(), codes)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return codes
		}
		for i := range v.Len() {
			codes = distinctCodes(v.Index(i), codes)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case f.Name == "ErrorCode":
				if code := int16(v.Field(i).Int()); !slices.Contains(codes, code) {
					codes = append(codes, code)
				}
			case f.IsExported():
				codes = distinctCodes(v.Field(i), codes)
			}
		}
	}
	return codes
}

// audited returns the names of what a request changes; not ok for one that changes nothing that is
// an administrator's affair. Rules and credentials are logged one by one by their handlers.
func audited(message kmsg.Request) (names []string, ok bool) {
	switch r := message.(type) {
	case *kmsg.CreateTopicsRequest:
		for i := range r.Topics {
			names = append(names, r.Topics[i].Topic)
		}
	case *kmsg.DeleteTopicsRequest:
		names = slices.Clone(r.TopicNames)
		for _, t := range r.Topics {
			if t.Topic != nil {
				names = append(names, *t.Topic)
			} else {
				names = append(names, fmt.Sprintf("%x", t.TopicID))
			}
		}
	case *kmsg.DeleteRecordsRequest:
		for i := range r.Topics {
			names = append(names, r.Topics[i].Topic)
		}
	case *kmsg.CreatePartitionsRequest:
		for i := range r.Topics {
			names = append(names, r.Topics[i].Topic)
		}
	case *kmsg.DeleteGroupsRequest:
		names = slices.Clone(r.Groups)
	case *kmsg.OffsetDeleteRequest:
		names = []string{r.Group}
	case *kmsg.AlterConfigsRequest:
		for i := range r.Resources {
			for _, c := range r.Resources[i].Configs {
				names = append(names, r.Resources[i].ResourceName+" "+c.Name)
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for i := range r.Resources {
			for _, c := range r.Resources[i].Configs {
				names = append(names, r.Resources[i].ResourceName+" "+c.Name)
			}
		}
	case *kmsg.AlterClientQuotasRequest:
		for i := range r.Entries {
			for _, e := range r.Entries[i].Entity {
				name := "default"
				if e.Name != nil {
					name = *e.Name
				}
				names = append(names, e.Type+" "+name)
			}
		}
	case *kmsg.WriteTxnMarkersRequest, *kmsg.AlterReplicaLogDirsRequest, *kmsg.ElectLeadersRequest,
		*kmsg.AlterPartitionAssignmentsRequest, *kmsg.UpdateFeaturesRequest,
		*kmsg.UnregisterBrokerRequest:
	default:
		return nil, false
	}
	return names, true
}
