package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeConfigs (key 32), versions 1 to 4.
//
//   - Topics, this broker, and the default of all brokers (name ""); every setting with its type,
//     source, synonyms and documentation. Names null is all of them; unknown names are left out.
//   - Sensitive values are null.
//   - Loggers of this broker (type 8), metrics subscriptions (16) and groups (32), which need not
//     exist.

func (s *Server) describeConfigs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeConfigsRequest)
	resp := response[*kmsg.DescribeConfigsResponse](r)
	image := s.image()
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		values, code, message := s.configValues(image, in.ResourceType, in.ResourceName)
		if out.ErrorCode = code; code != 0 {
			out.ErrorMessage = &message
		}
		for j := range values {
			v := &values[j]
			if len(in.ConfigNames) > 0 && !slices.Contains(in.ConfigNames, v.Def.Name) {
				continue
			}
			out.Configs = append(out.Configs, describedConfig(v, req))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// configValues returns all settings of a resource, or why there are none.
func (s *Server) configValues(
	image *metadata.Image, kind kmsg.ConfigResourceType, name string,
) (values []metadata.ConfigValue, code int16, message string) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, ok := image.Topic(name)
		switch {
		case ok:
			return image.TopicConfigs(t), 0, ""
		case metadata.ValidateTopicName(name) != nil:
			return nil, kerr.InvalidTopicException.Code, metadata.ValidateTopicName(name).Error()
		}
		return nil, kerr.UnknownTopicOrPartition.Code,
			fmt.Sprintf("The topic '%s' does not exist.", name)
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return image.BrokerConfigs(metadata.ClusterDefault), 0, ""
		}
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || int32(id) != s.nodeID {
			return nil, kerr.InvalidRequest.Code,
				"the settings of broker " + name + " are known to that broker only; this one is " +
					strconv.Itoa(int(s.nodeID))
		}
		return s.brokerConfigs(image), 0, ""
	case resourceBrokerLogger:
		if err := s.isThisBroker(name); err != nil {
			return nil, errorCode(err), err.Error()
		}
		return s.loggerConfigs(), 0, ""
	case resourceMetrics, resourceGroup:
		if name == "" {
			return nil, kerr.InvalidRequest.Code, "the resource has no name"
		}
		return image.ResourceConfigs(metadata.ResourceKind(kind), name), 0, ""
	}
	return nil, kerr.InvalidRequest.Code, fmt.Sprintf("resources of type %d have no settings", kind)
}

// brokerConfigs returns this broker's settings, with what only the server knows.
func (s *Server) brokerConfigs(image *metadata.Image) []metadata.ConfigValue {
	values := image.BrokerConfigs(s.nodeID)
	for i := range values {
		if v := &values[i]; v.Def.Name == "log.dirs" {
			v.Value, v.Null, v.Source = s.opts.DirPath, false, metadata.SourceStatic
			v.Synonyms = []metadata.ConfigSynonym{
				{Name: v.Def.Name, Value: v.Value, Source: v.Source}}
		}
	}
	return values
}

// describedConfig encodes one setting.
func describedConfig(
	v *metadata.ConfigValue, req *kmsg.DescribeConfigsRequest,
) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.ReadOnly, out.IsSensitive = v.Def.Name, v.Def.ReadOnly, v.Def.Sensitive
	out.IsDefault = v.Source == metadata.SourceDefault
	out.Source = kmsg.ConfigSource(v.Source)
	out.ConfigType = kmsg.ConfigType(v.Def.Type)
	if !v.Null && !v.Def.Sensitive {
		out.Value = &v.Value
	}
	if req.IncludeDocumentation {
		doc := v.Def.DisplayDoc()
		out.Documentation = &doc
	}
	if req.IncludeSynonyms {
		for i := range v.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Source = v.Synonyms[i].Name, kmsg.ConfigSource(v.Synonyms[i].Source)
			if !v.Def.Sensitive {
				synonym.Value = &v.Synonyms[i].Value
			}
			out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
		}
	}
	return out
}
