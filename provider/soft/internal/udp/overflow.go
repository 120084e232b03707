//go:build linux

package udp

import "golang.org/x/sys/unix"

// A kernel that sends on many connections at once sends up to 128 packets on each before
// it waits for an answer (RXE_MAX_UNACKED_PSNS). A socket holds 185 packets of 1 KiB
// with the default net.core.rmem_max. Packets that do not fit are lost, whole windows at
// a time. The kernel notices that only by its timeout. All connections then send again
// at once, and soon have no retries left. On RoCE a receiver can not slow a sender down:
// the kernel ignores credits, and an RNR NAK makes it worse.
//
// So when a socket has dropped packets, the shard opens further sockets at the same
// address, and its queue pairs are distributed over them. Each socket has a buffer of
// its own.
const (
	// maxReceiveSockets bounds the sockets of a shard on one address. With 64, that many
	// connections get their first window through in one round of retries.
	maxReceiveSockets = 64
	// receiveMemory bounds the memory of the buffers of these sockets, if all are full:
	// 32 MiB. With the default net.core.rmem_max it is not reached.
	receiveMemory = 32 << 20
	// fullPollsBeforeCheck is after how many polls in a row with full batches the shard
	// asks the socket whether it has dropped packets. Asking costs a system call, once
	// for 128 packets.
	fullPollsBeforeCheck = 2
)

// overflowSockets has the additional sockets of a localSocket, and detects when they are
// needed; the comment above has the reason. It belongs to the shard.
type overflowSockets struct {
	first     *localSocket
	sockets   []*overflowSocket
	fullPolls int    // number of polls in a row with full batches
	limit     uint64 // number of packets dropped by the first socket at which widen is called
	atLimit   bool   // there are as many sockets as the limits allow
}

// An overflowSocket is an additional socket of a localSocket. It belongs to the shard.
type overflowSocket struct {
	first *localSocket
	fd    int
	times arrivalTimes
}

// init takes over the additional sockets that the shard already has at the port.
func (o *overflowSockets) init(u *localSocket, fds []int) {
	o.first, o.limit = u, droppedAt(u.fd)+1
	o.watch(fds)
}

// watch begins to receive from sockets. Epoll watches them, because there are many
// and each has packets only now and then. If epoll can not watch a socket, only
// drain reads it, before a timer of the shard fires.
func (o *overflowSockets) watch(fds []int) {
	for _, fd := range fds {
		socket := &overflowSocket{first: o.first, fd: fd}
		_ = o.first.conn.cfg.Watcher.Watch(fd, unix.EPOLLIN, socket)
		o.sockets = append(o.sockets, socket)
		o.first.conn.overflowCount++
	}
	o.receiveHeaders()
}

// receiveHeaders makes the system report headers at the additional sockets, if it does
// so at the first socket.
func (o *overflowSockets) receiveHeaders() {
	for _, socket := range o.sockets {
		if o.first.recv.receivesHeaders {
			receiveHeadersAt(socket.fd, o.first.port.local)
		}
	}
}

// polled is called after a poll of the first socket, with the number of full batches.
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
		// If not all sockets can be opened now, the next try is when twice as many
		// packets were dropped: the counter has 32 bits, so there are 32 tries at most.
		o.limit = 2 * dropped
		o.widen()
	}
}

// widen opens as many further sockets as the limits allow and the system can open.
func (o *overflowSockets) widen() {
	missing := o.mayOpen()
	if missing > 0 {
		fds := o.first.port.widen(o.first.conn.cfg.Slot, missing)[1+len(o.sockets):]
		o.watch(fds)
		missing -= len(fds)
	}
	o.atLimit = missing <= 0
}

// mayOpen returns how many further sockets may be opened, within the limits of
// descriptors and memory.
func (o *overflowSockets) mayOpen() int {
	size, err := unix.GetsockoptInt(o.first.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || size <= 0 {
		return 0
	}
	const share = 8 // sockets of all shards may use one eighth of the descriptors
	n := min(maxReceiveSockets, receiveMemory/size, descriptorShare(o.first.conn.cfg.Shards, share))
	return n - 1 - len(o.sockets)
}

// OnReady implements EventHandler.
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

// drain reads everything that has arrived, up to a bound.
func (o *overflowSockets) drain() {
	for _, socket := range o.sockets {
		for range drainRounds {
			if socket.receive() == 0 {
				break
			}
		}
	}
}

// close stops watching the sockets, which the port still owns.
func (o *overflowSockets) close() {
	for _, socket := range o.sockets {
		o.first.conn.cfg.Watcher.Unwatch(socket.fd)
		o.first.conn.overflowCount--
	}
	o.sockets = nil
}
