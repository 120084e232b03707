//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/epollset"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A shard is the owner of its udp.Conn: it receives the packets, and its epoll descriptor
// watches the sockets.

// Receive implements udp.Sink. It delivers a packet to its queue pair. A BPF program in
// the kernel makes sure that the socket of connection management receives the packets
// for queue pair 1. Before this program is installed, a socket of the shard may receive
// such a packet; Receive then passes it to connection management.
func (s *shard) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	if p.BTH().DestQP() == wire.GSIQPN {
		return s.dev.cm.Receive(p, from)
	}
	return s.demux.receive(p, from)
}

// Watch implements udp.Watcher. It adds the descriptor to the shard's epoll descriptor.
func (s *shard) Watch(fd int, events uint32, h epollset.Handler) error {
	return s.epoll.Add(fd, events, h)
}

// Rewatch implements udp.Watcher. It changes the events for which epoll watches the
// descriptor.
func (s *shard) Rewatch(fd int, events uint32) { s.epoll.Modify(fd, events) }

// Unwatch implements udp.Watcher. It removes the descriptor from the shard's epoll
// descriptor.
func (s *shard) Unwatch(fd int) { s.epoll.Remove(fd) }

// Signal implements udp.Watcher. It makes sure that the owner drives the shard before it
// sleeps.
func (s *shard) Signal() { s.signal() }

var (
	_ udp.Sink    = (*shard)(nil)
	_ udp.Watcher = (*shard)(nil)
)
