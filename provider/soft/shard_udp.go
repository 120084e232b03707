//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/internal/wire"

// A shard is the owner of its udpConn: it receives the packets, and its epoll descriptor
// watches the sockets.

// Receive implements packetSink. It delivers a packet to its queue pair. A packet to
// queue pair 1 arrives here if the socket is already open and the BPF program that
// steers packets is not yet installed.
func (s *shard) Receive(p wire.Packet, from *ipHeader) (taken bool) {
	if p.BTH().DestQP() == wire.GSIQPN {
		return s.dev.mux.receive(p, from)
	}
	return s.wire.receive(p, from)
}

// Watch implements udpWatcher.
func (s *shard) Watch(fd int, events uint32, h udpEventHandler) error { return s.watch(fd, events, h) }

// Rewatch implements udpWatcher.
func (s *shard) Rewatch(fd int, events uint32) { s.rewatch(fd, events) }

// Unwatch implements udpWatcher.
func (s *shard) Unwatch(fd int) { s.unwatch(fd) }

// Signal implements udpWatcher.
func (s *shard) Signal() { s.signal() }

var (
	_ packetSink = (*shard)(nil)
	_ udpWatcher = (*shard)(nil)
)
