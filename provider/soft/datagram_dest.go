//go:build linux

package soft

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDatagramDests bounds the connections of one queue pair to others. The
	// one that was idle for longest gives way. The number is arbitrary: a quarter
	// of the descriptors that a process usually may have (RLIMIT_NOFILE, 1024).
	maxDatagramDests = 256
	// maxDatagramQueue bounds the bytes that wait for one destination, headers
	// included, in addition to those in its socket (net.core.wmem_default). It is
	// 253 datagrams of the largest size.
	maxDatagramQueue = 1 << 20
	// maxShardQueue bounds the bytes that wait for all destinations of a shard.
	maxShardQueue = 16 << 20
	// connectRetryFirst and connectRetryMost are how soon a destination that has
	// no place for another connection is tried again: the system does not tell when it
	// has; see connect(2), EAGAIN. The wait doubles from the one to the other.
	connectRetryFirst = time.Millisecond
	connectRetryMost  = 256 * time.Millisecond
	// connectTries is how often that is done, 10 s in all, before the datagrams
	// that wait are dropped.
	connectTries = 48
)

// A datagramDest is a destination of a UD queue pair on this host: a connection to
// it, and what waits to be sent. It belongs to the shard, and is in one of three
// states. While it is open, there is a connection and nothing waits. While it is
// full, there is a connection, what waits is sent when the socket has room again
// (EPOLLOUT), and later datagrams wait behind. While it is refused, the receiver
// has no place for a connection, and retry runs. A destination that there is not,
// or that belongs to a user who is not allowed, does not stay.
type datagramDest struct {
	p       *datagramPort
	qpn     uint32
	fd      int // -1 while it is refused
	queue   packetQueue
	retry   timer
	tries   int
	lastUse uint64 // by the port's count of uses
}

var errPeerUser = errors.New("the queue pair number is held by a user who is not allowed")

// dest is the destination of a number, or nil when there is none.
func (p *datagramPort) dest(qpn uint32) *datagramDest {
	p.uses++
	if d := p.dests[qpn]; d != nil {
		d.lastUse = p.uses
		return d
	}
	if len(p.dests) >= maxDatagramDests {
		p.removeIdlest(nil)
	}
	d := &datagramDest{p: p, qpn: qpn, fd: -1, lastUse: p.uses}
	d.retry.init(p.q.shard, d.connectAgain)
	p.dests[qpn] = d
	if !d.connect() {
		return nil
	}
	return d
}

// removeIdlest gives up the destination that was used least recently, of those
// for which nothing waits if there is one, and reports whether there was any
// besides keep. A socket that holds something is not given up before others: what
// follows by another connection might overtake it.
func (p *datagramPort) removeIdlest(keep *datagramDest) bool {
	var idle, any *datagramDest
	for _, d := range p.dests {
		if d == keep {
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

// idle reports whether the receiver has everything.
func (d *datagramDest) idle() bool {
	if d.fd < 0 || !d.queue.empty() {
		return false
	}
	held, err := unix.IoctlGetInt(d.fd, unix.SIOCOUTQ)
	return err == nil && held == 0
}

// connect makes the connection, or begins to wait for a place. It returns false
// after removing a destination that can not be had.
func (d *datagramDest) connect() bool {
	fd, err := newSocket()
	if errors.Is(err, unix.EMFILE) && d.p.removeIdlest(d) {
		fd, err = newSocket()
	}
	if err == nil {
		err = d.p.connectSocket(fd, d.qpn)
	}
	switch {
	case err == nil && d.p.q.shard.watch(fd, 0, d) == nil:
		d.fd, d.tries = fd, 0
		return true
	case err == nil:
		_ = unix.Close(fd)
	case errors.Is(err, unix.EAGAIN) && d.tries < connectTries:
		d.retry.start(min(connectRetryFirst<<min(d.tries, 16), connectRetryMost))
		d.tries++
		return true
	case errors.Is(err, errPeerUser):
		d.p.q.shard.counts.inc(datagramUserRefused)
	}
	d.remove()
	return false
}

// connectSocket connects a socket to a queue pair whose user is allowed, or closes
// it.
func (p *datagramPort) connectSocket(fd int, qpn uint32) error {
	err := unix.Connect(fd, &unix.SockaddrUnix{Name: datagramSpot(qpn)})
	if err == nil && !p.q.dev.allowsPeer(fd) {
		err = errPeerUser
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return err
}

// connectAgain is what retry does.
func (d *datagramDest) connectAgain() {
	if d.connect() {
		d.flush()
	}
}

// send sends a datagram at once, or puts it behind those that wait.
func (d *datagramDest) send(b []byte) {
	if d.fd >= 0 && d.queue.empty() && d.transmit(b) {
		return
	}
	if d.p.dests[d.qpn] != d {
		d.p.drop(1) // the destination has just gone
		return
	}
	s := d.p.q.shard
	if size := queuedSize(b); d.queue.size()+size > maxDatagramQueue || s.queued+size > maxShardQueue {
		d.p.drop(1)
		return
	}
	if d.queue.empty() && d.fd >= 0 {
		s.rewatch(d.fd, unix.EPOLLOUT)
	}
	s.queued += d.queue.push(b)
}

// transmit gives a datagram to the socket, and reports whether that has taken it.
// A receiver that has closed the connection is tried once more by a new one.
func (d *datagramDest) transmit(b []byte) bool {
	for range 2 {
		err := unix.Send(d.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil {
			return true
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			return false
		}
		d.disconnect()
		if !d.connect() || d.fd < 0 {
			return false
		}
	}
	return false
}

// flush sends what waits, as far as there is room.
func (d *datagramDest) flush() {
	for d.fd >= 0 && !d.queue.empty() {
		if !d.transmit(d.queue.first()) {
			break
		}
		d.p.q.shard.queued -= d.queue.pop()
	}
	if d.fd >= 0 {
		events := uint32(0)
		if !d.queue.empty() {
			events = unix.EPOLLOUT
		}
		d.p.q.shard.rewatch(d.fd, events)
	}
}

// onReady: there is room again, or the receiver has closed the connection.
func (d *datagramDest) onReady(_ int, events uint32) {
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

func (d *datagramDest) disconnect() {
	if d.fd >= 0 {
		d.p.q.shard.unwatch(d.fd)
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// remove gives up the destination. What waits for it is dropped and counted; what
// is in the socket reaches the receiver.
func (d *datagramDest) remove() {
	d.disconnect()
	d.retry.stop()
	d.p.drop(uint64(d.queue.count))
	d.p.q.shard.queued -= d.queue.clear()
	delete(d.p.dests, d.qpn)
}
