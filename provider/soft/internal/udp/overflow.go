//go:build linux

package udp

import "golang.org/x/sys/unix"

// The kernel's Soft-RoCE sends up to 128 packets on a connection before it waits for an
// acknowledgement (RXE_MAX_UNACKED_PSNS). If it sends on many connections at once, these
// packets do not fit into one socket, which holds 185 packets of 1 KiB with the default
// of net.core.rmem_max. The rest is lost, often all packets of a connection. Soft-RoCE
// notices such a loss only by its retransmission timer. All connections then send again
// at the same time, and soon have no retries left. A RoCE receiver has no means to slow
// such a sender down: Soft-RoCE ignores credits, and RNR NAKs cause even more packets.
//
// When a socket has dropped packets, the shard therefore opens further sockets, the
// overflow sockets, at the same address. The queue pairs of the shard are distributed
// over all these sockets, each of which has a receive buffer of its own.
const (
	// maxReceiveSockets is the largest number of sockets of a shard on one address. With
	// 64 sockets and 64 connections, each connection has on average a socket of its own,
	// which can hold the 128 packets that Soft-RoCE sends at once.
	maxReceiveSockets = 64
	// receiveMemory is the largest number of bytes that all receive buffers of a shard
	// together may have. The number is arbitrary. It is more than maxReceiveSockets
	// buffers have with the default of net.core.rmem_max.
	receiveMemory = 32 << 20
	// fullPollsBeforeCheck says when the shard asks the kernel whether the socket has
	// dropped packets: after so many polls in a row in which every batch was full. Each
	// question takes a system call. With 2, the shard asks at most once for 128 packets.
	fullPollsBeforeCheck = 2
)

// An overflowSockets has the overflow sockets of a localSocket. It opens them when the
// localSocket has dropped packets; the comment above maxReceiveSockets has the reason. It
// belongs to the shard.
type overflowSockets struct {
	first     *localSocket
	sockets   []*overflowSocket
	fullPolls int // number of polls in a row in which every batch was full
	// limit is a number of dropped packets. The shard opens overflow sockets when the
	// first socket has dropped at least limit packets.
	limit   uint64
	atLimit bool // The largest allowed number of sockets is open.
}

// An overflowSocket is an additional receiving socket of a localSocket. It belongs to the
// shard.
type overflowSocket struct {
	first *localSocket
	fd    int
	times arrivalTimes
}

// init takes over overflow sockets that the localPort still has from an earlier use by
// this shard. The parameter fds has their descriptors.
func (o *overflowSockets) init(u *localSocket, fds []int) {
	o.first, o.limit = u, droppedAt(u.fd)+1
	o.watch(fds)
}

// watch begins to receive from the overflow sockets with the descriptors fds. Epoll
// watches them, because polling many sockets that rarely have packets would take too
// long. If epoll can not watch a socket, packets wait in it until the shard calls drain,
// which it does before a timer of the shard fires.
func (o *overflowSockets) watch(fds []int) {
	for _, fd := range fds {
		socket := &overflowSocket{first: o.first, fd: fd}
		_ = o.first.conn.cfg.Watcher.Watch(fd, unix.EPOLLIN, socket)
		o.sockets = append(o.sockets, socket)
		o.first.conn.overflowCount++
	}
	o.receiveHeaders()
}

// receiveHeaders makes the kernel report IP headers at the overflow sockets if it reports
// them at the first socket.
func (o *overflowSockets) receiveHeaders() {
	for _, socket := range o.sockets {
		if o.first.recv.receivesHeaders {
			receiveHeadersAt(socket.fd, o.first.port.local)
		}
	}
}

// polled is called after each poll of the first socket. The parameter full is the number
// of full batches that this poll has received. If the socket seems to be overloaded,
// polled asks the kernel for the number of dropped packets. If this number is at least
// limit, polled opens overflow sockets.
func (o *overflowSockets) polled(full int) {
	if full < receiveRounds || o.atLimit {
		o.fullPolls = 0
		return
	}
	if o.fullPolls++; o.fullPolls < fullPollsBeforeCheck {
		return
	}
	o.fullPolls = 0
	if dropped := droppedAt(o.first.fd); dropped >= o.limit {
		// If the kernel can not open all sockets now, the shard tries again when twice as
		// many packets were dropped. The number of dropped packets has 32 bits and
		// doubles between two attempts, so there are at most 32 attempts.
		o.limit = 2 * dropped
		o.widen()
	}
}

// widen opens overflow sockets: as many as the limits allow and the kernel can open.
func (o *overflowSockets) widen() {
	missing := o.mayOpen()
	if missing > 0 {
		fds := o.first.port.widen(o.first.conn.cfg.Slot, missing)[1+len(o.sockets):]
		o.watch(fds)
		missing -= len(fds)
	}
	o.atLimit = missing <= 0
}

// mayOpen returns how many further sockets the limits of descriptors and memory allow.
// The result is negative if there are already more sockets than allowed.
func (o *overflowSockets) mayOpen() int {
	size, err := unix.GetsockoptInt(o.first.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || size <= 0 {
		return 0
	}
	const share = 8 // The sockets of all shards together may use one eighth of the descriptors.
	n := min(maxReceiveSockets, receiveMemory/size, descriptorShare(o.first.conn.cfg.Shards, share))
	return n - 1 - len(o.sockets)
}

// OnReady receives packets of the overflow socket, and sends the queued packets of the
// Conn. It implements epollset.Handler.
func (s *overflowSocket) OnReady(int, uint32) {
	for range receiveRounds {
		if s.receive() < receiveBatch {
			break
		}
	}
	s.first.conn.Flush()
}

// receive reads a batch of packets, and returns how many there were.
func (s *overflowSocket) receive() int {
	return s.first.recv.receiveFrom(s.fd, &s.times, s.first.conn.cfg.Sink)
}

// drain reads the packets that have arrived at the overflow sockets, with at most
// drainRounds calls for each socket.
func (o *overflowSockets) drain() {
	for _, socket := range o.sockets {
		for range drainRounds {
			if socket.receive() == 0 {
				break
			}
		}
	}
}

// close stops watching the overflow sockets. They stay open, because the localPort owns
// them.
func (o *overflowSockets) close() {
	for _, socket := range o.sockets {
		o.first.conn.cfg.Watcher.Unwatch(socket.fd)
		o.first.conn.overflowCount--
	}
	o.sockets = nil
}
