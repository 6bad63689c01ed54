package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Serve runs the plugin until the host ends it. It does not return: the process exits with status 0
// when the host closed it, with 2 when no host started it, and with 1 when p is not usable.
func Serve(p Plugin) {
	if err := p.check(); err != nil {
		fmt.Fprintln(os.Stderr, "millstream plugin:", err)
		os.Exit(1)
	}
	if !startedByHost {
		describePlugin(os.Stderr, p)
		os.Exit(2)
	}
	if err := os.Setenv(pluginpb.CookieKey, pluginpb.CookieValue); err != nil {
		fmt.Fprintln(os.Stderr, "millstream plugin:", err)
		os.Exit(1)
	}
	srv := &server{plugin: p, asked: restoreOutput()}
	openHandshake()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion,
			MagicCookieKey:  pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		VersionedPlugins: map[int]plugin.PluginSet{
			pluginpb.ProtocolVersion: {pluginpb.DispenseName: &served{srv: srv}},
		},
		GRPCServer: newGRPCServer,
		Logger: hclog.New(&hclog.LoggerOptions{
			Level: hclog.Warn, Output: os.Stderr, JSONFormat: true,
		}),
	})
	os.Exit(0)
}

// restoreOutput returns what gives os.Stdout and os.Stderr back the files they are now.
// go-plugin puts pipes into their place that lose what was printed last before a crash; it does
// so before it serves the first call.
func restoreOutput() func() {
	out, errs := os.Stdout, os.Stderr
	return sync.OnceFunc(func() { os.Stdout, os.Stderr = out, errs })
}

// ServeBuiltin serves the plugin of that name out of those compiled into the host: a host that
// starts itself again as a plugin process calls it. It does not return.
func ServeBuiltin(name string, builtin ...Plugin) {
	var names []string
	for _, p := range builtin {
		if p.Name == name {
			Serve(p)
		}
		names = append(names, p.Name)
	}
	fmt.Fprintf(os.Stderr, "no built-in connector %q; there are: %s\n", name, strings.Join(names, ", "))
	os.Exit(1)
}

// newGRPCServer raises the message limit above gRPC's 4 MiB and sets the buffers and the codec.
func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	_ = os.Unsetenv(pluginpb.CookieKey) // what the plugin starts is no plugin
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(pluginpb.MaxMessageBytes), grpc.MaxSendMsgSize(pluginpb.MaxMessageBytes),
		grpc.InitialWindowSize(pluginpb.FlowWindowBytes),
		grpc.InitialConnWindowSize(pluginpb.ConnWindowBytes),
		grpc.ReadBufferSize(pluginpb.IOBufferBytes), grpc.WriteBufferSize(pluginpb.IOBufferBytes),
		grpc.ForceServerCodecV2(pluginpb.Codec{}),
	)...)
}

// served registers the server with go-plugin.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	srv pluginpb.PluginServer
}

var _ plugin.GRPCPlugin = (*served)(nil)

func (p *served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pluginpb.RegisterPluginServer(s, p.srv)
	return nil
}

func (p *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin does not call plugins")
}

// describePlugin tells who runs the binary by hand what it is.
func describePlugin(w io.Writer, p Plugin) {
	version := ""
	if p.Version != "" {
		version = " " + p.Version
	}
	fmt.Fprintf(w, "%s%s is a Millstream plugin (protocol %d, sdk %s).\n",
		p.Name, version, pluginpb.ProtocolVersion, Version)
	if p.Doc != "" {
		fmt.Fprintln(w, p.Doc)
	}
	fmt.Fprintln(w, "It is started by millstream, not by hand. In a pipeline:")
	fmt.Fprintf(w, "\n  plugins:\n    %s: {source: ./path/to/this/directory}\n", p.Name)
	fmt.Fprintln(w, "\nParts:")
	for _, part := range p.Parts {
		kind := strings.ToLower(strings.TrimPrefix(part.kind.String(), "KIND_"))
		fmt.Fprintf(w, "  %-9s %s", kind, part.name)
		if part.doc != "" {
			fmt.Fprintf(w, "  %s", part.doc)
		}
		fmt.Fprintln(w)
		for _, f := range part.shape.fields {
			fmt.Fprintf(w, "            %s\n", describeField(f))
		}
	}
}

func describeField(f field) string {
	s := f.name + ": " + strings.TrimPrefix(kindNames[f.shape.kind], "a ")
	if f.def != nil {
		if d, err := json.Marshal(f.def); err == nil {
			s += ", default " + string(d)
		}
	}
	if f.required {
		s += ", required"
	}
	if f.doc != "" {
		s += "  (" + f.doc + ")"
	}
	return s
}
