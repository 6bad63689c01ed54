package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// specTimeout bounds the first call to a plugin.
const specTimeout = 5 * time.Second

// instance is one life of a plugin: a process, or the same code in this process.
type instance struct {
	rpc  pluginpb.PluginClient
	spec *pluginpb.SpecResponse
	pid  int // 0 in process

	done  chan struct{} // closed when it is gone
	exit  func() string // how it ended; call it after done
	abort func()        // ends it, with its stacks in the log
	kill  func()        // ends it at once
	stop  func()        // lets it end, waits, and cleans up; also after done
}

// launcher starts instances of one plugin.
type launcher struct {
	options Options
	log     *pluginLog
}

func (l *launcher) launch(ctx context.Context) (*instance, error) {
	l.log.reset()
	if l.options.InProcess != nil {
		return l.launchLocal(ctx)
	}
	return l.launchProcess(ctx)
}

// fault makes the error of a start.
func (l *launcher) fault(reason string) error {
	return &StartError{
		Plugin: l.options.Name, Path: l.options.Command.shown(), Reason: reason, Output: l.log.last(),
	}
}

func (l *launcher) launchProcess(ctx context.Context) (*instance, error) {
	dir, err := newSocketDir()
	if err != nil {
		return nil, l.fault(err.Error())
	}
	proc := newProcess(l.options.Command, l.log)
	client := plugin.NewClient(l.clientConfig(proc, dir))
	unhook := context.AfterFunc(ctx, proc.kill)
	in := &instance{
		done: proc.done, exit: proc.exitText, abort: proc.abort, kill: proc.kill,
		stop: sync.OnceFunc(func() {
			client.Kill()
			if proc.pid() != 0 {
				proc.kill()
				<-proc.done
			}
			dir.remove()
		}),
	}
	err = l.connect(ctx, client, in)
	unhook()
	if err != nil {
		reason := l.startReason(ctx, proc, err)
		in.stop()
		if errors.Is(err, ErrChecksum) {
			return nil, fmt.Errorf("plugin %q: %w", l.options.Name, err)
		}
		return nil, l.fault(reason)
	}
	in.pid = proc.pid()
	return in, nil
}

func (l *launcher) clientConfig(proc *process, dir *socketDir) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: pluginpb.ProtocolVersion,
			MagicCookieKey:  pluginpb.CookieKey, MagicCookieValue: pluginpb.CookieValue,
		},
		VersionedPlugins: map[int]plugin.PluginSet{
			pluginpb.ProtocolVersion: {pluginpb.DispenseName: dispenser{}},
		},
		RunnerFunc:       runnerFunc(proc),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     l.options.StartTimeout,
		Logger:           newHCLog(l.log),
		SyncStdout:       &lineWriter{log: l.log, stream: "stdout"}, // the SDK does not use them
		SyncStderr:       &lineWriter{log: l.log, stream: "stderr"},
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir.path},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithInitialWindowSize(pluginpb.FlowWindowBytes),
			grpc.WithInitialConnWindowSize(pluginpb.ConnWindowBytes),
			grpc.WithReadBufferSize(pluginpb.IOBufferBytes),
			grpc.WithWriteBufferSize(pluginpb.IOBufferBytes),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(pluginpb.MaxMessageBytes),
				grpc.MaxCallSendMsgSize(pluginpb.MaxMessageBytes),
				grpc.ForceCodecV2(pluginpb.Codec{}),
			),
		},
	}
}

// connect does the handshake and asks the plugin what it is.
func (l *launcher) connect(ctx context.Context, client *plugin.Client, in *instance) error {
	c, err := client.Client()
	if err != nil {
		return err
	}
	raw, err := c.Dispense(pluginpb.DispenseName)
	if err != nil {
		return err
	}
	in.rpc = raw.(pluginpb.PluginClient) // dispenser makes nothing else
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	in.spec, err = in.rpc.Spec(ctx, &pluginpb.SpecRequest{})
	if err != nil {
		return err
	}
	return checkSpec(in.spec)
}

func checkSpec(s *pluginpb.SpecResponse) error {
	const v = pluginpb.ProtocolVersion
	if s.ProtocolMin > v || s.ProtocolMax < v {
		return fmt.Errorf("it speaks protocol %d to %d, this host %d: "+
			"rebuild it with the SDK of this release",
			s.ProtocolMin, s.ProtocolMax, v)
	}
	return nil
}

// startReason says in the user's words why a start failed.
func (l *launcher) startReason(ctx context.Context, proc *process, err error) string {
	if ctx.Err() != nil {
		return "start cancelled: " + context.Cause(ctx).Error()
	}
	if proc.pid() == 0 {
		return "cannot be started: " + err.Error()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	switch {
	case status.Code(err) == codes.Unimplemented:
		return "is a go-plugin, but not a Millstream plugin"
	case strings.Contains(text, "timeout while waiting"):
		return fmt.Sprintf("printed no handshake within %s; "+
			"a plugin's main calls sdk.Map, sdk.Serve or the like",
			l.options.StartTimeout)
	case strings.Contains(text, "incompatible API version"):
		return "speaks another protocol version (" + text + "); rebuild it with the SDK of this release"
	case strings.Contains(text, "it speaks protocol"):
		return text
	case proc.endedItself() && proc.firstLine == "":
		return "is not a plugin: it ended (" + proc.exitText() + ") before the handshake"
	case strings.Contains(text, "Unrecognized remote plugin message"), strings.Contains(text, "core"):
		return fmt.Sprintf("is not a plugin: it printed %q instead of the handshake",
			cut(proc.firstLine, 200))
	}
	return text
}

// launchLocal runs the plugin's code in this process.
func (l *launcher) launchLocal(ctx context.Context) (*instance, error) {
	rpc, err := sdk.Local(*l.options.InProcess)
	if err != nil {
		return nil, l.fault(err.Error())
	}
	spec, err := rpc.Spec(ctx, &pluginpb.SpecRequest{})
	if err != nil {
		return nil, l.fault(err.Error())
	}
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	return &instance{
		rpc: rpc, spec: spec, done: done, exit: func() string { return "ended in process" },
		abort: end, kill: end, stop: end,
	}, nil
}

// dispenser makes the client of a connection.
type dispenser struct{ plugin.NetRPCUnsupportedPlugin }

var _ plugin.GRPCPlugin = dispenser{}

func (dispenser) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host serves no plugins")
}

func (dispenser) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any,
	error) {
	return pluginpb.NewPluginClient(c), nil
}
