package vnet

import (
	"context"
	"net"
)

// Network opens listeners and connections. Addresses are host:port; port 0 asks for a free one.
type Network interface {
	// Listen returns a listener on addr. ctx bounds the opening only.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// Dial connects to addr. ctx bounds the connecting only.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// TCP returns the network of the machine.
func TCP() Network { return tcp{} }

type tcp struct{}

func (tcp) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
