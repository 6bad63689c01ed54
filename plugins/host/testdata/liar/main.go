// Command liar speaks the handshake but answers what the protocol does not allow. It does not
// use the SDK.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

type liar struct {
	pluginpb.UnimplementedPluginServer
}

func (liar) Spec(context.Context, *pluginpb.SpecRequest) (*pluginpb.SpecResponse, error) {
	if os.Getenv("LIE") == "protocol" {
		return &pluginpb.SpecResponse{Name: "liar", ProtocolMin: 7, ProtocolMax: 9}, nil
	}
	return &pluginpb.SpecResponse{Name: "liar", ProtocolMin: 1, ProtocolMax: 1, Parts: []*pluginpb.Part{
		{Name: "op", Kind: pluginpb.Kind_KIND_OPERATOR},
	}}, nil
}

func (liar) Operate(st pluginpb.Plugin_OperateServer) error {
	if _, err := st.Recv(); err != nil {
		return err
	}
	send := func(m *pluginpb.FromPlugin) { _ = st.Send(m) }
	send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Opened{Opened: &pluginpb.Opened{
		Credit: &pluginpb.Credit{Frames: 8, Bytes: 1 << 20},
	}}})
	for {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		b := m.GetBatch()
		if b == nil {
			continue
		}
		r := &pluginpb.Result{Seq: b.Seq, Frame: b.Frame, Credit: &pluginpb.Credit{Frames: 1,
			Bytes: uint64(len(b.Frame))}}
		switch os.Getenv("LIE") {
		case "counts":
			r.Counts = []uint32{1}
		case "sum":
			r.Counts = []uint32{1, 5, 0}
		case "few":
			r.Frame = nil
		case "seq":
			r.Seq += 3
		case "frame":
			r.Frame = []byte("this is not a frame, whatever it is")
		case "errors":
			r.Errors = []*pluginpb.RecordError{{Index: 99, Message: "?"}}
		case "twice":
			send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Result{Result: r}})
			r = &pluginpb.Result{Seq: b.Seq, Frame: append([]byte(nil), b.Frame...)}
		case "huge":
			r.Frame = make([]byte, pluginpb.MaxMessageBytes+1)
		case "end":
			return nil
		case "never":
			continue
		}
		send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Result{Result: r}})
	}
}

type served struct{ plugin.NetRPCUnsupportedPlugin }

func (served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if os.Getenv("LIE") != "service" {
		pluginpb.RegisterPluginServer(s, liar{})
	}
	return nil
}

func (served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("no")
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: 1, MagicCookieKey: pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		Plugins: plugin.PluginSet{pluginpb.DispenseName: served{}},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30))...)
		},
	})
}
