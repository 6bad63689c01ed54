package sdk

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// server answers the host. It has no state; streams have.
type server struct {
	pluginpb.UnimplementedPluginServer
	plugin Plugin
	asked  func() // called at each Spec; nil in process
}

// Spec describes the plugin.
func (s *server) Spec(context.Context, *pluginpb.SpecRequest) (*pluginpb.SpecResponse, error) {
	if s.asked != nil {
		s.asked()
	}
	r := &pluginpb.SpecResponse{
		Name: s.plugin.Name, Version: s.plugin.Version, Doc: s.plugin.Doc, Sdk: "go/" + Version,
		ProtocolMin: pluginpb.ProtocolVersion, ProtocolMax: pluginpb.ProtocolVersion,
	}
	for _, p := range s.plugin.Parts {
		r.Parts = append(r.Parts, &pluginpb.Part{
			Name: p.name, Kind: p.kind, Doc: p.doc, ConfigSchema: jsonSchema(p.shape),
			PreservesKey: p.preservesKey, Deterministic: p.deterministic,
			Exact: p.exact, Timers: p.timers, WallTimers: p.wallTimers != nil && *p.wallTimers,
		})
	}
	return r, nil
}

// Validate checks a configuration.
func (s *server) Validate(
	_ context.Context, r *pluginpb.ValidateRequest,
) (*pluginpb.ValidateResponse, error) {
	p, err := s.part(r.Part, pluginpb.Kind_KIND_UNSPECIFIED)
	if err != nil {
		return nil, err
	}
	return &pluginpb.ValidateResponse{Diagnostics: p.validate(r.Config)}, nil
}

// part finds a part by name. An empty name stands for the only one of that kind.
func (s *server) part(name string, kind pluginpb.Kind) (Part, error) {
	var names []string
	var only []Part
	for _, p := range s.plugin.Parts {
		if kind != pluginpb.Kind_KIND_UNSPECIFIED && p.kind != kind {
			continue
		}
		if p.name == name {
			return p, nil
		}
		names, only = append(names, p.name), append(only, p)
	}
	if name == "" && len(only) == 1 {
		return only[0], nil
	}
	what := "part"
	if kind != pluginpb.Kind_KIND_UNSPECIFIED {
		what = strings.ToLower(strings.TrimPrefix(kind.String(), "KIND_"))
	}
	return Part{}, status.Error(codes.NotFound, fmt.Sprintf(
		"plugin %q has no %s %q; it has: %s", s.plugin.Name, what, name, strings.Join(names, ", ")))
}

// Operate runs an operator.
func (s *server) Operate(st pluginpb.Plugin_OperateServer) error {
	return s.serve(st, pluginpb.Kind_KIND_OPERATOR, runOperator)
}

// Source runs a source.
func (s *server) Source(st pluginpb.Plugin_SourceServer) error {
	return s.serve(st, pluginpb.Kind_KIND_SOURCE, runSource)
}

// Sink runs a sink.
func (s *server) Sink(st pluginpb.Plugin_SinkServer) error {
	return s.serve(st, pluginpb.Kind_KIND_SINK, runSink)
}

func (s *server) serve(st stream, kind pluginpb.Kind, run func(*session, Part) error) error {
	ses, err := newSession(st)
	if err != nil {
		return err
	}
	p, err := s.part(ses.open.Part, kind)
	if err != nil {
		return err
	}
	return run(ses, p)
}
