//go:build linux

package udp

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// If a shard's socket drops packets, the shard opens more sockets at the same address,
// the overflow sockets. The queue pairs of the shard are distributed over all its
// sockets.
//
// The kernel's Soft-RoCE sends up to 128 packets on a connection without an
// acknowledgement (RXE_MAX_UNACKED_PSNS), and the receiver can not slow it down. By
// default a socket holds only 185 packets of 1 KiB. So a socket for many connections
// drops packets.
const (
	// maxReceiveSockets is the largest number of sockets of a shard on one address. With
	// 64 connections, the average is one connection for each socket.
	maxReceiveSockets = 64
	// receiveMemory is the largest size in bytes of all receive buffers of a shard on
	// one address. Arbitrary.
	receiveMemory = 32 << 20
	// fullPollsBeforeCheck is the number of full polls in a row after which the shard
	// asks the kernel for the number of dropped packets. These polls have read 128
	// packets.
	fullPollsBeforeCheck = 2
)

// An overflowSockets has the overflow sockets of a localSocket. It belongs to the shard.
type overflowSockets struct {
	first     *localSocket
	sockets   []*overflowSocket
	fullPolls int // number of polls in a row in which every batch was full
	// number of packets dropped at the first socket after which overflow sockets are
	// opened
	limit   uint64
	atLimit bool // true if no more overflow sockets may be opened
	next    int  // index in the field sockets at which the next call of poll() begins
}

// An overflowSocket is an additional receiving socket of a localSocket. It belongs to
// the shard.
type overflowSocket struct {
	first    *localSocket
	fd       int
	times    arrivalTimes
	readable bool // true if epoll has reported packets and the socket may not be empty
}

// init takes over the overflow sockets fds, which an earlier localSocket has opened.
func (o *overflowSockets) init(u *localSocket, fds []int) {
	o.first, o.limit = u, droppedAt(u.fd)+1
	o.watch(fds)
}

// watch begins to receive from the overflow sockets fds. Epoll watches them, because
// polling many idle sockets is slow.
func (o *overflowSockets) watch(fds []int) {
	for _, fd := range fds {
		socket := &overflowSocket{first: o.first, fd: fd}
		_ = o.first.conn.cfg.Watcher.Watch(fd, unix.EPOLLIN, socket)
		o.sockets = append(o.sockets, socket)
		o.first.conn.overflowCount++
	}
	o.report()
}

// report makes the kernel report at the overflow sockets what it reports at the first socket.
func (o *overflowSockets) report() {
	for _, socket := range o.sockets {
		reportAt(socket.fd, o.first.port.local, o.first.recv.reports)
	}
}

// polled is called after each poll of the first socket. The parameter full is the number
// of full batches. If the socket has dropped many packets, polled() opens overflow
// sockets.
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
		// If some sockets can not be opened now, polled tries it again after twice as
		// many drops.
		o.limit = 2 * dropped
		o.first.conn.cfg.Counts.Limit(counters.RcvdOverrunErr) // The value itself is the kernel's.
		o.widen()
	}
}

// widen opens as many overflow sockets as the limits and the kernel allow.
func (o *overflowSockets) widen() {
	missing := o.mayOpen()
	if missing > 0 {
		fds := o.first.port.widen(o.first.conn.cfg.Slot, missing)[1+len(o.sockets):]
		o.watch(fds)
		missing -= len(fds)
	}
	o.atLimit = missing <= 0
}

// mayOpen returns the number of overflow sockets that the limits still allow. The result
// may be negative.
func (o *overflowSockets) mayOpen() int {
	size, err := unix.GetsockoptInt(o.first.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || size <= 0 {
		return 0
	}
	const share = 8 // The sockets of all shards may use an eighth of the descriptors.
	n := min(maxReceiveSockets, receiveMemory/size, descriptorShare(o.first.conn.cfg.Shards(), share))
	return n - 1 - len(o.sockets)
}

// OnReady implements fdevent.Handler. It reads nothing; overflowSockets.poll does that
// later.
func (s *overflowSocket) OnReady(int, uint32) { s.readable = true }

// receive reads a batch of packets, and returns their number.
func (s *overflowSocket) receive() int {
	n := s.first.recv.receiveFrom(s.fd, &s.times, s.first.conn.cfg.Sink)
	s.readable = n == receiveBatch
	return n
}

// poll reads a batch from each readable socket in turn, until it has read pollPackets
// packets. The next call continues with the next socket.
func (o *overflowSockets) poll() {
	left := pollPackets
	for range o.sockets {
		o.next = (o.next + 1) % len(o.sockets)
		if socket := o.sockets[o.next]; socket.readable {
			if left -= socket.receive(); left <= 0 {
				return
			}
		}
	}
}

// close stops watching the overflow sockets. The sockets stay open, because the
// localPort owns them.
func (o *overflowSockets) close() {
	for _, socket := range o.sockets {
		o.first.conn.cfg.Watcher.Unwatch(socket.fd)
		o.first.conn.overflowCount--
	}
	o.sockets = nil
}
