//go:build linux

package udp

import (
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

const (
	// sendBatch and receiveBatch are the largest numbers of packets of one system call.
	// With a smaller sendBatch, a message with UDP_SEGMENT could not have maxSegments
	// packets. receiveBatch is arbitrary.
	sendBatch    = 64
	receiveBatch = 32
	// receiveRounds is the largest number of calls of receive in one poll of a socket.
	// The number is arbitrary.
	receiveRounds = 2
	// spinPolls is the number of times that Poll reads the sockets in a row while they
	// have no packets. After Poll, the owner does its other work, which takes nearly as
	// long as one read. A packet that arrives during that work has to wait. With several
	// reads in a row, a packet more often arrives during a read and is then handled at
	// once.
	spinPolls = 4
	// drainRounds is the largest number of times that Drain reads one socket. 64 reads
	// take up to 2,048 packets, which is more than a socket holds with the default of
	// net.core.rmem_max.
	drainRounds = 64
	// packetBufSize is the size in bytes of a buffer for a packet: a multiple of a cache
	// line.
	packetBufSize = (wire.MaxPacket + 63) &^ 63
)

// A Config has the objects that a Conn uses. Only Slot may be zero.
type Config struct {
	Ports *Ports // the local addresses and sockets of the device
	// Slot is the number of the shard. It is less than the number of slots of Ports.
	Slot uint32
	// Shards is the number of shards that share the limits of the process, such as the
	// limit of open descriptors.
	Shards  int
	Sink    Sink          // gets the packets that arrive
	Watcher Watcher       // wakes the owner when a socket has an event
	Counts  *counters.Set // counts packets sent, received and dropped
}

// A Conn sends and receives the packets of a shard. It has one UDP socket for each local
// address that the queue pairs of the shard use. It belongs to the goroutine that drives
// the shard. Its calls never block. The Conn owns the buffers of the packets.
type Conn struct {
	cfg           Config
	sockets       []*localSocket
	overflowCount int  // number of overflow sockets of all local sockets
	foundNothing  bool // the last Poll found no packets
}

// NewConn returns a Conn without sockets. The caller has to open a route before it sends.
// NewConn copies cfg.
func NewConn(cfg *Config) *Conn { return &Conn{cfg: *cfg} }

// InUse reports whether the Conn has sockets, so that its owner has to call Poll.
func (c *Conn) InUse() bool { return len(c.sockets) > 0 }

// OverflowSockets returns the number of overflow sockets of the Conn. Poll does not read
// these sockets; the Watcher reports when they are readable.
func (c *Conn) OverflowSockets() int { return c.overflowCount }

// A localSocket is a shard's socket on one local address.
type localSocket struct {
	conn  *Conn
	port  *localPort
	fd    int
	users int // number of open routes that use the socket
	// connDests has the destinations of RC connections, and udDests those of UD queue
	// pairs.
	connDests map[destHeader]*destination
	udDests   map[destHeader]*destination
	// connectedLimit limits the number of connected sockets. If connDests already has
	// connectedLimit destinations, further destinations never get a connected socket. So
	// there are never more than connectedLimit connected sockets.
	connectedLimit int
	send           sender
	recv           receiver
	overflow       overflowSockets
	// armedEvents has the bits of epoll_ctl(2) that Arm has requested last, or 0 if one
	// of them has occurred since.
	armedEvents uint32
}

// maxConnected is the largest value of localSocket.connectedLimit. It is arbitrary.
const maxConnected = 512

// connectedLimitOf returns how many connected sockets a localSocket may have. All shards
// together use at most one quarter of the limit of open descriptors for connected
// sockets.
func connectedLimitOf(shards int) int { return min(maxConnected, descriptorShare(shards, 4)) }

// descriptorShare returns how many descriptors one shard may use for one purpose: the
// limit of open descriptors (setrlimit(2), RLIMIT_NOFILE) divided by parts*shards. All
// shards together may then use 1/parts of the limit.
func descriptorShare(shards, parts int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32)) / parts / shards
}

// Open prepares a route, which can be used until Close. If the shard has no socket on the
// route's local address, Open opens one. It returns an error if no packets can be sent
// along the route.
func (c *Conn) Open(to *Route) error {
	u, err := c.socketAt(to.Local)
	if err != nil {
		return err
	}
	u.users++
	if to.WantHeader {
		u.recv.receiveHeaders()
		u.overflow.receiveHeaders()
	}
	to.socket, to.dest = u, u.dest(destHeader{to.Remote, to.TrafficClass, to.HopLimit}, !to.WantHeader)
	return nil
}

// dest returns the destination with the given header, and counts one more user of it. If
// there is none, dest creates the destination. Routes with the same header share a
// destination, but a connection and a UD queue pair never share one. The reason is that
// only the destination of connections may get a connected socket: if packets through that
// socket were lost, a UD queue pair would not notice.
func (u *localSocket) dest(h destHeader, connected bool) *destination {
	dests := u.udDests
	if connected {
		dests = u.connDests
	}
	d := dests[h]
	if d == nil {
		d = &destination{table: dests}
		d.set(u.port.local, h)
		dests[h] = d
		if connected && len(dests) <= u.connectedLimit {
			d.untilConnect = connectAfter
		}
	}
	d.users++
	return d
}

// releaseDest counts one user of a destination less. If that was the last user,
// releaseDest sends the queued packets, and then removes the destination. If the kernel
// does not accept all packets at that time, the packets for the destination stay queued,
// and the shared socket sends them later.
func (u *localSocket) releaseDest(d *destination) {
	if d.users--; d.users > 0 {
		return
	}
	u.send.flush()
	d.disconnect()
	delete(d.table, d.header)
}

// socketAt returns the shard's socket on a local address. It opens the socket if the
// shard has none there.
func (c *Conn) socketAt(local netip.Addr) (*localSocket, error) {
	for _, u := range c.sockets {
		if u.port.local.Addr() == local {
			return u, nil
		}
	}
	port, err := c.cfg.Ports.acquire(local)
	if err != nil {
		return nil, err
	}
	u := &localSocket{conn: c, port: port, connectedLimit: connectedLimitOf(c.cfg.Shards), connDests: make(map[destHeader]*destination), udDests: make(map[destHeader]*destination)}
	if err := u.join(); err != nil {
		port.release()
		return nil, err
	}
	c.sockets = append(c.sockets, u)
	return u, nil
}

// join gets the shard's socket from the localPort. The localPort may still have several
// sockets from an earlier use by this shard. In that case join takes all of them over:
// the first one is used as the shard's socket, and the others become overflow sockets.
func (u *localSocket) join() (err error) {
	fds, err := u.port.join(u.conn.cfg.Slot)
	if err != nil {
		return err
	}
	u.fd = fds[0]
	u.send = newSender(u.fd, sendBatch, packetBufSize, u.conn.cfg.Counts)
	u.recv = newReceiver(u.fd, u.port.local, receiveBatch, packetBufSize, u.conn.cfg.Counts)
	if err := u.conn.cfg.Watcher.Watch(u.fd, 0, u); err != nil {
		return err
	}
	u.overflow.init(u, fds[1:])
	return nil
}

// Close undoes Open. When no open route uses the socket of the local address any more,
// Close closes the socket.
func (c *Conn) Close(to *Route) {
	u := to.socket
	u.releaseDest(to.dest)
	if u.users--; u.users > 0 {
		return
	}
	u.overflow.close()
	c.cfg.Watcher.Unwatch(u.fd)
	for i, other := range c.sockets {
		if other == u {
			c.sockets = append(c.sockets[:i], c.sockets[i+1:]...)
			break
		}
	}
	u.port.release()
}

// Buffer returns memory of size bytes for one packet along a route. It returns nil if
// all buffers are in use and the kernel accepts no packets now. The caller may write to
// the memory until Push. If the caller calls Buffer again without Push, the contents are
// discarded.
func (c *Conn) Buffer(route *Route, size int) []byte {
	if b := route.socket.send.buffer(); b != nil {
		return b[:size]
	}
	return nil
}

// Push queues the packet that was built in the memory from the last call of Buffer. The
// packet must be complete except for its ICRC.
func (c *Conn) Push(route *Route, p wire.Packet) { route.socket.send.put(p, route.dest) }

// Flush sends the queued packets. A packet that the kernel does not accept now stays
// queued until the next Flush or Poll.
func (c *Conn) Flush() {
	for _, u := range c.sockets {
		if u.send.queued > 0 {
			u.send.flush()
		}
	}
}

// OnTimeout reports that the peer did not acknowledge a packet along a route in time. If
// the destination has a connected socket, OnTimeout closes it, and the destination uses
// the shared socket for some time. A possible cause of the timeout is that the Conn has
// a wrong count of the identifications of the connected socket. Then the ICRC of each
// packet from that socket is wrong, and the peer drops the packet.
func (c *Conn) OnTimeout(route *Route) { route.dest.disconnect() }

// Poll receives some of the packets that have arrived, and sends the queued packets. If
// spin is true and the last Poll found no packets, Poll reads the sockets up to spinPolls
// times, until it finds packets.
func (c *Conn) Poll(spin bool) {
	rounds := 1
	if spin && c.foundNothing {
		rounds = spinPolls
	}
	c.foundNothing = true
	for ; rounds > 0 && c.foundNothing; rounds-- {
		for _, u := range c.sockets {
			if u.poll() {
				c.foundNothing = false
			}
		}
	}
	c.Flush()
}

// Drain receives all packets that have arrived, with at most drainRounds calls for each
// socket. The owner calls Drain before it fires timers. Otherwise a retransmission timer
// could expire although the acknowledgement already waits in a socket.
func (c *Conn) Drain() {
	for _, u := range c.sockets {
		for range drainRounds {
			if u.recv.receive(c.cfg.Sink) == 0 {
				break
			}
		}
		u.overflow.drain()
	}
}

// poll receives some of the packets that have arrived, and reports whether there were
// any. It also sets sender.mayConnect, so that one more destination can get a connected
// socket.
func (u *localSocket) poll() (found bool) {
	u.send.mayConnect = !u.send.connectDisabled
	full := 0
	for range receiveRounds {
		n := u.recv.receive(u.conn.cfg.Sink)
		found = found || n > 0
		if n < receiveBatch {
			break
		}
		full++
	}
	u.overflow.polled(full)
	return found
}

// OnReady receives packets of the socket, and sends the queued packets of the Conn. It
// implements epollset.Handler for the socket and for its connected sockets.
func (u *localSocket) OnReady(fd int, _ uint32) {
	if fd == u.fd {
		u.armedEvents = 0
	}
	u.poll()
	u.conn.Flush()
}

// Arm makes the Watcher wake the owner when packets arrive, or when the kernel accepts
// packets again. Each call requests one event of each socket (EPOLLONESHOT), so the
// owner calls Arm each time before it may sleep. A lasting request would be slower:
// while epoll watches a socket, each packet that arrives makes the kernel wake the
// waiters of epoll, even if the owner polls and does not need that. In event mode the
// round-trip time is 0.69 times that with a lasting request; see bench/README.md.
func (c *Conn) Arm() {
	for _, u := range c.sockets {
		events := uint32(unix.EPOLLIN | unix.EPOLLONESHOT)
		if out := u.send.blocked(); out == &u.send.shared {
			events |= unix.EPOLLOUT
		} else if out != nil {
			out.watch(c.cfg.Watcher, u)
		}
		if events != u.armedEvents {
			u.armedEvents = events
			c.cfg.Watcher.Rewatch(u.fd, events)
		}
	}
}
