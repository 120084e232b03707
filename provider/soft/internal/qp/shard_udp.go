//go:build linux

package qp

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A shard is the owner of its udp.Conn.

// Receive implements udp.Sink. It delivers a packet to its queue pair. Packets for
// connection management (queue pair 1) seldom arrive here, because a BPF program usually
// directs them to another socket.
func (s *Shard) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	if p.BTH().DestQP() == wire.GSIQPN {
		return s.engine.Host.ReceiveMAD(p, from)
	}
	return s.Demux.Receive(p, from)
}

// Watch implements udp.Watcher.
func (s *Shard) Watch(fd int, events uint32, h fdevent.Handler) error {
	return s.epoll.Add(fd, events, h)
}

// Rewatch implements udp.Watcher.
func (s *Shard) Rewatch(fd int, events uint32) { s.epoll.Modify(fd, events) }

// Unwatch implements udp.Watcher.
func (s *Shard) Unwatch(fd int) { s.epoll.Remove(fd) }

// AddEpollOnly changes the number of listening sockets that only epoll polls.
func (s *Shard) AddEpollOnly(n int) { s.epollOnly += n }

// Signal implements udp.Watcher. The owner then drives the shard before it sleeps.
func (s *Shard) Signal() { s.signal() }

// unusedSocketTime is how long a UDP socket without connections stays open at most. A
// new connection of the shard can use the socket. Arbitrary.
const unusedSocketTime = time.Second

// Unused implements udp.Watcher.
func (s *Shard) Unused() {
	if !s.unusedSockets.Running() {
		s.unusedSockets.Start(unusedSocketTime)
	}
}

var (
	_ udp.Sink    = (*Shard)(nil)
	_ udp.Watcher = (*Shard)(nil)
)
