//go:build linux

package soft

import "golang.org/x/sys/unix"

// A kernel that sends on many connections at once puts up to 128 packets of each
// on the way before it waits for an answer (RXE_MAX_UNACKED_PSNS), and a socket holds
// 185 of 1 KiB with the default net.core.rmem_max. What does not fit is lost, whole
// windows at a time: the peer does not hear of that but by its timeout, after which all
// of them send again, and the few retries that it has are soon used up. A receiver can
// not tell a sender on RoCE to go slower: the kernel ignores credits, and an RNR NAK
// harms it.
//
// So a socket at which packets were dropped gets others beside it, over which the
// shard's queue pairs are spread. Each has a buffer of its own.
const (
	// maxReceiveSockets bounds the sockets of a shard on one address. With 64 as many
	// connections get their first window through in one round of retries as there
	// are.
	maxReceiveSockets = 64
	// receiveMemory bounds the buffers of these sockets together, as far as they are
	// used: 32 MiB. With the default net.core.rmem_max it is not reached.
	receiveMemory = 32 << 20
	// pressedPolls is after how many polls in a row that found more than they take
	// the socket is asked whether it has dropped packets. The question costs a call of
	// the system, for 128 packets.
	pressedPolls = 2
)

// udpRelief is the additional sockets of a udpSocket, and what tells that they are
// needed. It belongs to the shard.
type udpRelief struct {
	u       *udpSocket
	fds     []int
	pressed int    // polls in a row that found more than they take
	dropped uint64 // packets, at all sockets, as far as it is known
	tried   bool   // there are as many sockets as there can be
}

// init takes over the additional sockets that the shard has already.
func (r *udpRelief) init(u *udpSocket, fds []int) {
	r.u, r.tried = u, len(fds) > 0
	r.dropped = droppedAt(u.fd)
	r.watch(fds)
}

// watch begins to receive from sockets. They are left to epoll: there are many, and
// each has something only now and then. One that epoll has no room for is read when a
// timer fires, see drain: that of a sender whose packets wait there.
func (r *udpRelief) watch(fds []int) {
	for _, fd := range fds {
		_ = r.u.link.s.watch(fd, unix.EPOLLIN, r)
		r.fds = append(r.fds, fd)
		r.u.link.s.datagrams++
	}
	r.tellHeaders()
}

// tellHeaders has the system tell headers at the additional sockets, too, if it does
// at the first.
func (r *udpRelief) tellHeaders() {
	for _, fd := range r.fds {
		if r.u.recv.tells {
			tellHeadersAt(fd, r.u.port.local)
		}
	}
}

// polled follows a poll of the first socket, with so many full batches.
func (r *udpRelief) polled(full int) {
	if full < receiveRounds || r.tried {
		r.pressed = 0
		return
	}
	if r.pressed++; r.pressed < pressedPolls {
		return
	}
	r.pressed = 0
	if dropped := droppedAt(r.u.fd); dropped != r.dropped {
		r.dropped = dropped
		r.widen()
	}
}

// widen adds as many sockets as there may be.
func (r *udpRelief) widen() {
	r.tried = true
	if n := r.room(); n > 0 {
		fds := r.u.port.widen(r.u.link.slot, n)
		r.watch(fds[1:])
	}
}

// room is how many sockets may be added, of the descriptors and the memory that
// there are.
func (r *udpRelief) room() int {
	size, err := unix.GetsockoptInt(r.u.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || size <= 0 {
		return 0
	}
	const share = 8 // of the descriptors, for all shards
	n := min(maxReceiveSockets, receiveMemory/size, descriptorShare(r.u.link.s.dev.cfg.Vectors, share))
	return n - 1
}

// onReady: see watcher.
func (r *udpRelief) onReady(fd int, _ uint32) {
	for range receiveRounds {
		if r.u.recv.receiveFrom(fd, r.u) < receiveBatch {
			break
		}
	}
	r.u.link.flush()
}

// drain takes all that has arrived, within reason.
func (r *udpRelief) drain() {
	for _, fd := range r.fds {
		for range drainRounds {
			if r.u.recv.receiveFrom(fd, r.u) == 0 {
				break
			}
		}
	}
}

// close leaves the sockets to their port.
func (r *udpRelief) close() {
	for _, fd := range r.fds {
		r.u.link.s.unwatch(fd)
		r.u.link.s.datagrams--
	}
	r.fds = nil
}
