//go:build linux

package soft

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

const (
	// maxDatagramDests is how many connections a queue pair has to others. A further one
	// replaces the least recently used one. Arbitrary: a quarter of the usual
	// RLIMIT_NOFILE.
	maxDatagramDests = 256
	// maxDatagramQueue is how many bytes may wait for one destination: 253 datagrams of
	// the largest size. Arbitrary.
	maxDatagramQueue = 1 << 20
	// maxShardQueue is how many bytes may wait for all destinations of a shard.
	// Arbitrary.
	maxShardQueue = 16 << 20
	// These are the shortest and the longest interval between attempts to connect. The
	// interval doubles each time. The system does not report room in a full backlog; see
	// connect(2), EAGAIN.
	connectRetryFirst = time.Millisecond
	connectRetryMost  = 256 * time.Millisecond
	// A failed attempt to connect is repeated connectTries times. This takes 10 s in
	// all. Then the waiting datagrams are dropped. Arbitrary.
	connectTries = 48
)

// udDestState is the state of a udLocalDest.
type udDestState uint8

const (
	// udDestRefused: there is no connection, because the receiver's backlog is full.
	// Datagrams wait in the queue. The timer calls connectAgain. A new destination
	// begins in this state, without the timer.
	udDestRefused udDestState = iota
	// udDestOpen: there is a connection. The queue is empty, except between connect and
	// flush.
	udDestOpen
	// udDestFull: there is a connection, but its socket has no room. Datagrams wait in
	// the queue until EPOLLOUT.
	udDestFull
	// udDestRemoved: the method remove was called. This is the last state. A later
	// datagram to the same queue pair makes a new destination.
	udDestRemoved
)

// A udLocalDest is a destination of a UD queue pair on this host: a connection and a
// queue.
type udLocalDest struct {
	local      *udLocal
	qpn        uint32
	state      udDestState
	fd         int // connected socket in udDestOpen and udDestFull, else -1
	queue      packetQueue
	retryTimer timer
	tries      int    // attempts to connect since the last success
	lastUse    uint64 // value of udLocal.uses at the last use
}

// errPeerUser: the peer's user is not allowed.
var errPeerUser = errors.New("the user of the destination queue pair is not allowed")

// dest returns the destination for the queue pair with the number qpn. If there is no
// such destination yet, dest makes one. If connect fails, dest returns nil.
func (u *udLocal) dest(qpn uint32) *udLocalDest {
	u.uses++
	if d := u.dests[qpn]; d != nil {
		d.lastUse = u.uses
		return d
	}
	if len(u.dests) >= maxDatagramDests {
		u.removeLeastRecentlyUsed(nil)
	}
	d := &udLocalDest{local: u, qpn: qpn, fd: -1, lastUse: u.uses}
	d.retryTimer.init(u.q.shard, d.connectAgain)
	u.dests[qpn] = d
	if !d.connect() {
		return nil
	}
	return d
}

// removeLeastRecentlyUsed removes one destination, an idle one if possible. The socket of
// a destination that is not idle may have unread datagrams. Later datagrams over a new
// connection could overtake these. The destination in the parameter except is not
// removed. If there is no other one, the result is false.
func (u *udLocal) removeLeastRecentlyUsed(except *udLocalDest) bool {
	var idle, any *udLocalDest
	for _, d := range u.dests {
		if d == except {
			continue
		}
		if any == nil || d.lastUse < any.lastUse {
			any = d
		}
		if (idle == nil || d.lastUse < idle.lastUse) && d.idle() {
			idle = d
		}
	}
	switch {
	case idle != nil:
		idle.remove()
	case any != nil:
		any.remove()
	}
	return any != nil
}

// idle reports whether all datagrams were read by the receiver.
func (d *udLocalDest) idle() bool {
	if d.state != udDestOpen {
		return false
	}
	held, err := unix.IoctlGetInt(d.fd, unix.SIOCOUTQ)
	return err == nil && held == 0
}

// connect makes the connection, or enters udDestRefused if the backlog is full. On other
// errors it removes the destination and returns false.
func (d *udLocalDest) connect() bool {
	fd := -1
	err := resource.Retry(func() (err error) {
		fd, err = unixsock.New()
		return err
	}, func() bool { return d.local.removeLeastRecentlyUsed(d) })
	if err == nil {
		err = d.local.connectSocket(fd, d.qpn)
	}
	switch {
	case err == nil && d.local.q.shard.epoll.Add(fd, 0, d) == nil:
		d.fd, d.state, d.tries = fd, udDestOpen, 0
		return true
	case err == nil:
		_ = unix.Close(fd)
	case errors.Is(err, unix.EAGAIN) && d.tries < connectTries:
		d.retryTimer.start(min(connectRetryFirst<<min(d.tries, 16), connectRetryMost))
		d.state = udDestRefused
		d.tries++
		return true
	case errors.Is(err, errPeerUser):
		d.local.q.shard.counts.Inc(counters.DatagramUserRefused)
	}
	d.remove()
	return false
}

// connectSocket connects a socket to a queue pair of an allowed user. On failure it
// closes the socket.
func (u *udLocal) connectSocket(fd int, qpn uint32) error {
	err := unix.Connect(fd, &unix.SockaddrUnix{Name: datagramBindAddr(qpn)})
	if err == nil {
		peer, unknown := unixsock.PeerCredentials(fd)
		if unknown != nil || !u.q.dev.users.Allows(peer.UID) {
			err = errPeerUser
		}
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return err
}

// connectAgain tries once more to connect, and sends the queued datagrams.
func (d *udLocalDest) connectAgain() {
	if d.connect() {
		d.flush()
	}
}

// send sends a datagram, or queues it if others wait or the socket is full. If the queue
// is full, it drops and counts the datagram.
func (d *udLocalDest) send(b []byte) {
	if d.state == udDestOpen && d.transmit(b) {
		return
	}
	if d.state == udDestRemoved { // transmit could not connect again.
		d.local.countDropped(1)
		return
	}
	s := d.local.q.shard
	if size := queuedSize(b); d.queue.size()+size > maxDatagramQueue || s.udQueuedBytes+size > maxShardQueue {
		d.local.countDropped(1)
		return
	}
	if d.state == udDestOpen {
		d.awaitRoom()
	}
	s.udQueuedBytes += d.queue.push(b)
}

// awaitRoom enters udDestFull.
func (d *udLocalDest) awaitRoom() {
	d.state = udDestFull
	d.local.q.shard.epoll.Modify(d.fd, unix.EPOLLOUT)
}

// connected reports whether there is a connection.
func (d *udLocalDest) connected() bool { return d.state == udDestOpen || d.state == udDestFull }

// transmit passes a datagram to the socket. If the receiver has closed the connection,
// transmit calls connect, which may remove the destination. If the datagram was not sent,
// transmit returns false.
func (d *udLocalDest) transmit(b []byte) bool {
	for range 2 {
		err := unix.Send(d.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil {
			return true
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			return false
		}
		d.disconnect()
		if !d.connect() || d.state != udDestOpen {
			return false
		}
	}
	return false
}

// flush sends the queue as far as the socket has room, and enters udDestOpen or
// udDestFull.
func (d *udLocalDest) flush() {
	for d.connected() && !d.queue.empty() && d.transmit(d.queue.first()) {
		d.local.q.shard.udQueuedBytes -= d.queue.pop()
	}
	switch {
	case !d.connected():
	case d.queue.empty():
		d.state = udDestOpen
		d.local.q.shard.epoll.Modify(d.fd, 0)
	default:
		d.awaitRoom()
	}
}

// OnReady is called when the socket has room or the connection was closed.
func (d *udLocalDest) OnReady(_ int, events uint32) {
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		if d.queue.empty() {
			d.remove()
			return
		}
		d.disconnect()
		if !d.connect() {
			return
		}
	}
	d.flush()
}

// disconnect closes the connection, if there is one, and keeps the queue. The caller
// changes the state.
func (d *udLocalDest) disconnect() {
	if d.fd >= 0 {
		d.local.q.shard.epoll.Remove(d.fd)
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// remove removes the destination, and drops and counts the queued datagrams.
func (d *udLocalDest) remove() {
	d.disconnect()
	d.retryTimer.stop()
	d.local.countDropped(uint64(d.queue.count))
	d.local.q.shard.udQueuedBytes -= d.queue.clear()
	delete(d.local.dests, d.qpn)
	d.state = udDestRemoved
}
