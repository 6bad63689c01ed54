package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/.ci/faults/broker"
)

const (
	serverIP, clientsIP = "10.99.0.1", "10.99.0.2"
	addr                = serverIP + ":9092"
	admin               = "127.0.0.1:9780"
)

const settings = `broker:
  connections.max.idle.ms: "%d"
  group.min.session.timeout.ms: "%[2]d"
  group.consumer.session.timeout.ms: "%[2]d"
  group.consumer.min.session.timeout.ms: "%[2]d"
  group.consumer.heartbeat.interval.ms: "1000"
  group.consumer.min.heartbeat.interval.ms: "1000"
  transaction.abort.timed.out.transaction.cleanup.interval.ms: "500"
  group.initial.rebalance.delay.ms: "0"
`

// node is the broker.
type node struct {
	broker.Broker
	keepalive bool
	// roles are those of the broker, "" for all.
	roles string
}

func (n *node) start(ctx context.Context) error {
	idle := idleTimeout.Milliseconds()
	if n.keepalive {
		idle = -1
		// Some 13 s of retries instead of a quarter of an hour.
		if err := os.WriteFile("/proc/sys/net/ipv4/tcp_retries2", []byte("5"), 0); err != nil {
			return err
		}
	}
	n.Admin = admin
	return n.Start(ctx, broker.Options{Settings: fmt.Sprintf(settings, idle, sessionTimeout.Milliseconds()),
		Args: []string{"--listen", addr, "--insecure", "--roles", n.roles}})
}

// client is a franz-go client of the broker.
func client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
}

// connection is an established one, as one of its ends sees it.
type connection struct {
	// inode is that of the socket.
	inode string
	// unacked tells that not all bytes that were sent are acknowledged.
	unacked bool
}

// connections are the established ones with a peer, in the network namespace of a process.
func connections(pid int, peer string) (list []connection) {
	const established = "01"
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	for line := range strings.Lines(string(data)) {
		// sl, local, remote, state, bytes to send:bytes to read, timer, retransmits, user, timeout, inode.
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != established || !strings.HasPrefix(fields[2], hexIP(peer)) {
			continue
		}
		list = append(list, connection{fields[9], !strings.HasPrefix(fields[4], "00000000:")})
	}
	return list
}

// established counts the broker's connections over the link, and those of them whose bytes are not all
// acknowledged.
func (n *node) established() (all, unacked int) { return established(n.Pid(), clientsIP) }

// established counts the connections with a peer in the network namespace of a process.
func established(pid int, peer string) (all, unacked int) {
	list := connections(pid, peer)
	for _, c := range list {
		if c.unacked {
			unacked++
		}
	}
	return len(list), unacked
}

// hexIP is how the kernel writes an address: the bytes from the last to the first.
func hexIP(ip string) (hex string) {
	for part := range strings.SplitSeq(ip, ".") {
		b, _ := strconv.Atoi(part)
		hex = fmt.Sprintf("%02X", b) + hex
	}
	return hex + ":"
}

// state is what dead connections must leave as it was; memory is in bytes.
type state struct{ descriptors, goroutines, memory int }

func (n *node) state(ctx context.Context) (s state, err error) {
	if s.goroutines, err = n.Goroutines(ctx); err != nil {
		return s, err
	}
	descriptors, err := n.Descriptors()
	s.descriptors, s.memory = len(descriptors), n.Memory("VmRSS")
	return s, err
}
