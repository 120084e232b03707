//go:build linux

package udpath

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

const (
	// maxDatagramDests is the maximum number of destinations of a queue pair. At the
	// limit, a new destination replaces the least recently used one. Arbitrary.
	maxDatagramDests = 256
	// maxDatagramQueue is how many bytes may wait for one destination: 253 datagrams of
	// the largest size. Arbitrary.
	maxDatagramQueue = 1 << 20
	// maxShardQueue is how many bytes may wait for all destinations of a shard.
	// Arbitrary.
	maxShardQueue = 16 << 20
	// First and longest interval between two attempts to connect to a receiver whose backlog
	// is full (connect(2), EAGAIN). The interval doubles after each attempt.
	connectRetryFirst = time.Millisecond
	connectRetryMost  = 256 * time.Millisecond
	// connectTries is the number of attempts to connect after the first. Together they
	// take 10 s. After the last one the waiting datagrams are dropped. Arbitrary.
	connectTries = 48
)

// destState is the state of a localDest.
type destState uint8

const (
	// destRefused: there is no connection, because the destination is new or the
	// backlog of the receiver is full. Datagrams wait in the queue.
	destRefused destState = iota
	// destOpen: there is a connection. After connect(), datagrams may wait in the queue
	// until flush() sends them. Otherwise the queue is empty.
	destOpen
	// destFull: there is a connection, but its socket has no room. Datagrams wait in
	// the queue until EPOLLOUT.
	destFull
	// destRemoved: remove() was called. This is the last state. A later datagram to the
	// same queue pair makes a new destination.
	destRemoved
)

// A localDest is a destination of a UD queue pair on this host. It has a connection
// and a queue.
type localDest struct {
	local      *localPath
	qpn        uint32
	state      destState
	fd         int // connected socket in destOpen and destFull, else -1
	queue      packetQueue
	retryTimer qp.Timer
	tries      int    // attempts to connect since the last success
	lastUse    uint64 // value of localPath.uses at the last use
}

// errPeerUser: the user of the peer is not allowed.
var errPeerUser = errors.New("the user of the destination queue pair is not allowed")

// dest returns the destination for the queue pair with the number qpn. If there is no
// such destination yet, dest() makes one. If connect() fails, dest() returns nil.
func (p *localPath) dest(qpn uint32) *localDest {
	p.uses++
	if d := p.dests[qpn]; d != nil {
		d.lastUse = p.uses
		return d
	}
	if len(p.dests) >= maxDatagramDests {
		p.removeLeastRecentlyUsed(nil)
	}
	d := &localDest{local: p, qpn: qpn, fd: -1, lastUse: p.uses}
	d.retryTimer.Init(p.shard, timerheap.Func(d.connectAgain))
	p.dests[qpn] = d
	if !d.connect() {
		return nil
	}
	return d
}

// removeLeastRecentlyUsed removes one destination, if possible an idle one. It never
// removes the destination that the parameter except names. If there is no other
// destination, removeLeastRecentlyUsed returns false.
func (p *localPath) removeLeastRecentlyUsed(except *localDest) bool {
	var idle, any *localDest
	for _, d := range p.dests {
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

// idle reports whether the receiver has read all datagrams.
func (d *localDest) idle() bool {
	if d.state != destOpen {
		return false
	}
	held, err := unix.IoctlGetInt(d.fd, unix.SIOCOUTQ)
	return err == nil && held == 0
}

// connect makes the connection. If the backlog of the receiver is full, the new state is
// destRefused. On other errors connect removes the destination and returns false.
func (d *localDest) connect() bool {
	fd := -1
	err := resource.Retry(func() (err error) {
		fd, err = unixsock.New()
		return err
	}, func() bool { return d.local.removeLeastRecentlyUsed(d) })
	d.local.all.Host.Opened(fd)
	if err == nil {
		err = d.local.connectSocket(fd, d.qpn)
	}
	switch {
	case err == nil && d.local.shard.Watch(fd, 0, d) == nil:
		d.fd, d.state, d.tries = fd, destOpen, 0
		return true
	case err == nil:
		_ = unix.Close(fd)
	case errors.Is(err, unix.EAGAIN) && d.tries < connectTries:
		d.retryTimer.Start(min(connectRetryFirst<<min(d.tries, 16), connectRetryMost))
		d.state = destRefused
		d.tries++
		return true
	case errors.Is(err, errPeerUser):
		d.local.q.Counts().Inc(counters.DatagramUserRefused)
	}
	d.remove()
	return false
}

// connectSocket connects a socket to a queue pair, whose user must be allowed. If it
// fails, it closes the socket.
func (p *localPath) connectSocket(fd int, qpn uint32) error {
	err := unix.Connect(fd, &unix.SockaddrUnix{Name: datagramName(p.all.Host, qpn)})
	if err == nil {
		peer, unknown := unixsock.PeerCredentials(fd)
		if unknown != nil || !p.all.Users.Allows(peer.UID) {
			err = errPeerUser
		}
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return err
}

// connectAgain tries once more to connect, and sends the queued datagrams.
func (d *localDest) connectAgain() {
	if d.connect() {
		d.flush()
	}
}

// send sends or queues a datagram. If the queue is full, the datagram is dropped and
// counted.
func (d *localDest) send(b []byte) {
	if d.state == destOpen && d.transmit(b) {
		return
	}
	if d.state == destRemoved { // transmit() has failed to connect.
		d.local.countDropped(1)
		return
	}
	all := d.local.all
	if size := queuedSize(b); d.queue.size()+size > maxDatagramQueue || all.queued+size > maxShardQueue {
		d.local.countDropped(1)
		return
	}
	if d.state == destOpen {
		d.awaitRoom()
	}
	all.queued += d.queue.push(b)
}

func (d *localDest) awaitRoom() {
	d.state = destFull
	d.local.shard.Rewatch(d.fd, unix.EPOLLOUT)
}

// connected reports whether there is a connection.
func (d *localDest) connected() bool { return d.state == destOpen || d.state == destFull }

// transmit passes a datagram to the socket, and reports success. If the connection was
// closed, transmit connects again. If that fails, the destination may be removed.
func (d *localDest) transmit(b []byte) bool {
	for range 2 {
		err := unix.Send(d.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil {
			return true
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			return false
		}
		d.disconnect()
		if !d.connect() || d.state != destOpen {
			return false
		}
	}
	return false
}

// flush sends queued datagrams until the socket has no room. The new state is destOpen
// or destFull.
func (d *localDest) flush() {
	for d.connected() && !d.queue.empty() && d.transmit(d.queue.first()) {
		d.local.all.queued -= d.queue.pop()
	}
	switch {
	case !d.connected():
	case d.queue.empty():
		d.state = destOpen
		d.local.shard.Rewatch(d.fd, 0)
	default:
		d.awaitRoom()
	}
}

// OnReady is called when the socket has room or the connection was closed.
func (d *localDest) OnReady(_ int, events uint32) {
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
func (d *localDest) disconnect() {
	if d.fd >= 0 {
		d.local.shard.Unwatch(d.fd)
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// remove removes the destination, and drops and counts the queued datagrams.
func (d *localDest) remove() {
	d.disconnect()
	d.retryTimer.Stop()
	d.local.countDropped(uint64(d.queue.count))
	d.local.all.queued -= d.queue.clear()
	delete(d.local.dests, d.qpn)
	d.state = destRemoved
}

// A packetQueue is a FIFO queue of packets in one piece of memory. A length field of 4
// bytes precedes each packet. The zero value is empty.
type packetQueue struct {
	buf   []byte // length (32 bits), packet, length (32 bits), packet, ...
	head  int    // offset in buf at which the first packet begins, with its length
	count int    // number of packets in the queue
}

// packetLength is the size of the length that precedes each packet.
const packetLength = 4

// queuedSize returns how many bytes a packet takes in the queue.
func queuedSize(b []byte) int { return packetLength + len(b) }

func (q *packetQueue) empty() bool { return q.count == 0 }

// size returns the number of queued bytes.
func (q *packetQueue) size() int { return len(q.buf) - q.head }

// push adds a copy of a packet, and returns its size in the queue.
func (q *packetQueue) push(b []byte) int {
	// The move is worth its cost, because more than half of the buffer is free. So fewer
	// bytes are moved than were popped since the last move.
	if q.head > len(q.buf)/2 {
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
	q.buf = binary.NativeEndian.AppendUint32(q.buf, uint32(len(b)))
	q.buf = append(q.buf, b...)
	q.count++
	return queuedSize(b)
}

// first returns the oldest packet, which is valid until push() or pop().
func (q *packetQueue) first() []byte {
	n := int(binary.NativeEndian.Uint32(q.buf[q.head:]))
	return q.buf[q.head+packetLength:][:n]
}

// pop removes the oldest packet, and returns its size in the queue.
func (q *packetQueue) pop() int {
	size := queuedSize(q.first())
	q.head += size
	if q.count--; q.count == 0 {
		*q = packetQueue{}
	}
	return size
}

// clear removes all packets, and returns their size in the queue.
func (q *packetQueue) clear() int {
	size := q.size()
	*q = packetQueue{}
	return size
}
