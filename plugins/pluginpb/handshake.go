package pluginpb

// The handshake of hashicorp/go-plugin, and what host and SDK agree on beside it.
const (
	// ProtocolVersion is the application protocol of plugin.proto.
	ProtocolVersion = 1
	// CookieKey and CookieValue are the environment variable that tells a plugin it was started by a
	// host. It is no secret.
	CookieKey   = "MILLSTREAM_PLUGIN_COOKIE"
	CookieValue = "5f2d3c1e-millstream-plugin-v1"
	// LifelineEnv names the file descriptor of a pipe the host holds open while it lives.
	LifelineEnv = "MILLSTREAM_PLUGIN_LIFELINE_FD"
	// SocketDirEnv is go-plugin's variable for the directory of the plugin's socket.
	SocketDirEnv = "PLUGIN_UNIX_SOCKET_DIR"
	// DispenseName is the name the service has in go-plugin's plugin map.
	DispenseName = "plugin"

	// FlowWindowBytes and ConnWindowBytes are the HTTP/2 windows of both sides, IOBufferBytes their
	// socket buffers: measured, the defaults halve the throughput.
	FlowWindowBytes = 8 << 20
	ConnWindowBytes = 16 << 20
	IOBufferBytes   = 256 << 10
)
