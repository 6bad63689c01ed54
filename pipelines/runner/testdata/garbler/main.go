// Command garbler is a plugin whose operator answers every batch with what is no frame.
package main

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

type garbler struct {
	pluginpb.UnimplementedPluginServer
	plugin.NetRPCUnsupportedPlugin
}

func (garbler) Spec(context.Context, *pluginpb.SpecRequest) (*pluginpb.SpecResponse, error) {
	return &pluginpb.SpecResponse{Name: "garbler", ProtocolMin: 1, ProtocolMax: 1,
		Parts: []*pluginpb.Part{{Name: "garbler", Kind: pluginpb.Kind_KIND_OPERATOR}}}, nil
}

func (garbler) Validate(
	context.Context, *pluginpb.ValidateRequest,
) (*pluginpb.ValidateResponse, error) {
	return &pluginpb.ValidateResponse{}, nil
}

func (garbler) Operate(st pluginpb.Plugin_OperateServer) error {
	for {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		credit := &pluginpb.Credit{Frames: 8, Bytes: 1 << 20}
		answer := &pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Opened{
			Opened: &pluginpb.Opened{Credit: credit}}}
		if b := m.GetBatch(); b != nil {
			answer = &pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Result{
				Result: &pluginpb.Result{Seq: b.Seq, Frame: []byte("garbage"), Credit: credit}}}
		} else if m.GetOpen() == nil {
			continue
		}
		if err := st.Send(answer); err != nil {
			return err
		}
	}
}

func (g garbler) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pluginpb.RegisterPluginServer(s, g)
	return nil
}

func (garbler) GRPCClient(
	context.Context, *plugin.GRPCBroker, *grpc.ClientConn,
) (any, error) {
	return nil, nil
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: pluginpb.ProtocolVersion,
			MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{
			pluginpb.ProtocolVersion: {pluginpb.DispenseName: garbler{}}},
		GRPCServer: plugin.DefaultGRPCServer,
	})
}
