//go:build linux

package udp

import (
	"math"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

const (
	// sendBatch is the largest number of packets that one system call sends. It is not
	// less than maxSegments.
	sendBatch = 64
	// receiveBatch is the largest number of packets that one system call receives.
	// Arbitrary.
	receiveBatch = 32
	// receiveRounds is the largest number of calls of receive() of one socket in one
	// poll. Arbitrary.
	receiveRounds = 2
	// spinPolls is how many times one call of Poll reads the sockets if it finds no
	// packets and the parameter spin is true.
	spinPolls = 4
	// pollPackets is the number of packets after which a call of PollOverflow or Drain
	// stops reading. The owner can post receive buffers between two calls.
	pollPackets = receiveRounds * receiveBatch
	// packetBufSize is the size in bytes of a packet buffer: whole cache lines.
	packetBufSize = (wire.MaxPacket + 63) &^ 63
)

// A Config has the objects that a Conn uses. Only Slot and Tap may be zero.
type Config struct {
	Ports *Ports // the local addresses and sockets of the device
	// Slot is the number of the shard's slot. It is less than the number of slots of
	// Ports.
	Slot uint32
	// Shards returns the number of shards that share the limits of the process, at least 1.
	Shards  func() int
	Sink    Sink          // gets the packets that arrive
	Watcher Watcher       // watches the sockets for events
	Counts  *counters.Set // counts packets sent, received and dropped
	Tap     *capture.Tap  // records packets sent and received
}

// A Conn sends and receives the packets of a shard. It has one UDP socket for each local
// address in use. It belongs to the goroutine that drives the shard. Its calls never
// block.
type Conn struct {
	cfg           Config
	sockets       []*localSocket
	routes        int  // number of open routes
	overflowCount int  // number of overflow sockets of all local sockets
	foundNothing  bool // true if the last Poll has found no packets
	drain         drainProgress
}

// NewConn returns a Conn without sockets. It copies cfg. A route must be opened before
// packets are sent along it.
func NewConn(cfg *Config) *Conn { return &Conn{cfg: *cfg} }

// OverflowSockets returns the number of overflow sockets. The Watcher reports when an
// overflow socket is readable. PollOverflow reads the overflow sockets.
func (c *Conn) OverflowSockets() int { return c.overflowCount }

// A localSocket is a shard's socket on one local address.
type localSocket struct {
	conn  *Conn
	port  *localPort
	fd    int
	users int // number of open routes that use the socket
	// connDests has the destinations of RC connections. udDests has the destinations of UD
	// queue pairs.
	connDests map[destHeader]*destination
	udDests   map[destHeader]*destination
	send      sender
	recv      receiver
	direct    directSocket
	overflow  overflowSockets
	// events that Arm has requested with epoll_ctl(2); 0 after an event
	armedEvents uint32
}

// maxConnected is the largest number of connected sockets of a localSocket. It is arbitrary.
const maxConnected = 512

// connectedLimit returns how many connected sockets a localSocket may have. Destinations
// beyond this number in connDests use the shared socket. All shards together use at most a
// quarter of the descriptors, unless many shards are made later.
func (c *Conn) connectedLimit() int { return min(maxConnected, descriptorShare(c.cfg.Shards(), 4)) }

// descriptorShare returns how many descriptors a shard may use for one purpose. All
// shards together get a part of the limit of the process (setrlimit(2), RLIMIT_NOFILE):
// a quarter of it if the parameter parts is 4.
func descriptorShare(shards, parts int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32)) / parts / shards
}

// Open prepares a route for packets, until Close is called. If necessary it opens a
// socket on the local address. It returns an error if the route can not be used.
func (c *Conn) Open(to *Route) error {
	u, err := c.socketAt(to.Local)
	if err != nil {
		return err
	}
	u.users++
	if c.routes++; c.routes == 1 {
		c.cfg.Watcher.InUse(true)
	}
	if wanted := to.reports(); wanted != 0 {
		u.recv.report(wanted)
		u.direct.report()
		u.overflow.report()
	}
	to.socket, to.dest = u, u.dest(destHeader{to.Remote, to.TrafficClass, to.HopLimit}, !to.WantHeader)
	return nil
}

// dest returns the destination with the given header, and adds one user to it. Only
// destinations of RC connections get connected sockets, because only connections call
// OnTimeout.
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
		if connected && len(dests) <= u.conn.connectedLimit() {
			d.untilConnect = connectAfter
		}
	}
	d.users++
	return d
}

// releaseDest undoes one call of dest(). For the last user it sends the queued packets
// and removes the destination.
func (u *localSocket) releaseDest(d *destination) {
	if d.users--; d.users > 0 {
		return
	}
	u.send.flush()
	d.disconnect()
	delete(d.table, d.header)
}

// socketAt returns the shard's socket on a local address, and opens it if necessary.
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
	u := &localSocket{conn: c, port: port, connDests: make(map[destHeader]*destination), udDests: make(map[destHeader]*destination)}
	if err := u.join(); err != nil {
		port.release()
		return nil, err
	}
	c.sockets = append(c.sockets, u)
	return u, nil
}

// join gets the sockets of this shard from u.port. The first socket becomes u.fd, and
// the others become overflow sockets.
func (u *localSocket) join() (err error) {
	fds, err := u.port.join(u.conn.cfg.Slot)
	if err != nil {
		return err
	}
	counts := u.conn.cfg.Counts
	u.fd = fds[0]
	u.send = newSender(u.fd, sendBatch, packetBufSize, counts)
	u.recv = newReceiver(u.fd, u.port.local, receiveBatch, packetBufSize, counts)
	u.send.tap, u.recv.tap = u.conn.cfg.Tap, u.conn.cfg.Tap
	u.recv.mayMerge(u.owns)
	u.direct = directSocket{first: u, wait: firstDirectWait}
	if err := u.conn.cfg.Watcher.Watch(u.fd, 0, u); err != nil {
		return err
	}
	u.overflow.init(u, fds[1:])
	return nil
}

// owns reports whether the packets of a queue pair arrive at this shard.
func (u *localSocket) owns(qpn uint32) bool {
	return qpn%u.port.ports.slots == u.conn.cfg.Slot
}

// Close undoes Open. If no open route uses the socket any more, Close calls
// Watcher.Unused. The socket stays open for the next route, until CloseUnused. But a
// socket that reports headers or times is closed at once, because receiving them takes time.
func (c *Conn) Close(to *Route) {
	u := to.socket
	u.releaseDest(to.dest)
	if c.routes--; c.routes == 0 {
		c.cfg.Watcher.InUse(false)
	}
	if u.users--; u.users > 0 {
		return
	}
	u.direct.close()
	if u.recv.reports != 0 {
		c.closeUnused(u)
		return
	}
	c.cfg.Watcher.Unused()
}

// CloseUnused closes the sockets that no open route uses. The owner calls it before it
// stops using the Conn, and some time after each call of Watcher.Unused.
func (c *Conn) CloseUnused() {
	for _, u := range slices.Clone(c.sockets) {
		if u.users == 0 {
			c.closeUnused(u)
		}
	}
}

// closeUnused closes a socket that no open route uses.
func (c *Conn) closeUnused(u *localSocket) {
	u.overflow.close()
	c.cfg.Watcher.Unwatch(u.fd)
	c.sockets = slices.DeleteFunc(c.sockets, func(other *localSocket) bool { return other == u })
	u.port.release()
}

// Buffer returns memory for the next packet along a route. The parameter size is the
// length of the packet in bytes. The memory is valid until Push. Buffer returns nil if
// all buffers are in use.
func (c *Conn) Buffer(route *Route, size int) []byte {
	if b := route.socket.send.buffer(); b != nil {
		return b[:size]
	}
	return nil
}

// Push queues a packet that is in the memory from the last call of Buffer. The packet
// must be complete except for its ICRC.
func (c *Conn) Push(route *Route, p wire.Packet) {
	route.socket.send.put(p, route.dest, route.PeerSocket)
}

// Flush sends the queued packets. Packets that the kernel does not accept stay queued
// until the next Flush or Poll.
func (c *Conn) Flush() {
	for _, u := range c.sockets {
		if u.send.queued > 0 {
			u.send.flush()
		}
	}
}

// OnTimeout is called if a packet along the route was not acknowledged in time. Perhaps
// the packet had a wrong ICRC, because the identification on the connected socket was
// not as expected. So OnTimeout closes the connected socket, and the next packets go
// through the shared socket.
func (c *Conn) OnTimeout(route *Route) {
	route.dest.disconnect()
	route.PeerSocket = 0
}

// Poll receives some packets, and sends the queued packets. It reads each socket at
// least once. If the parameter spin is true and the last Poll found nothing, Poll reads
// the sockets up to spinPolls times, until it finds a packet.
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

// PollOverflow receives some packets from readable overflow sockets, and sends the
// queued packets. The owner calls it after handling the events of epoll.
func (c *Conn) PollOverflow() {
	if c.overflowCount == 0 {
		return
	}
	for _, u := range c.sockets {
		u.overflow.poll()
	}
	c.Flush()
}

// poll receives some packets, and reports whether it has found packets. It sets
// sender.mayConnect unless sender.connectDisabled is true.
func (u *localSocket) poll() (found bool) {
	u.send.mayConnect = !u.send.connectDisabled
	if u.direct.state != directOff {
		found = u.direct.poll()
	}
	full := 0
	for range receiveRounds {
		n := u.recv.receive(u.conn.cfg.Sink)
		found = found || n > 0
		if !u.recv.full {
			break
		}
		full++
	}
	u.overflow.polled(full)
	if u.direct.state == directOff && u.recv.sameSource >= u.direct.wait {
		u.direct.begin()
	}
	return found
}

// OnReady implements fdevent.Handler. It receives packets from the socket, and sends
// the queued packets of the Conn.
func (u *localSocket) OnReady(fd int, _ uint32) {
	if fd == u.fd {
		u.armedEvents = 0
	}
	u.poll()
	u.conn.Flush()
}

// Arm makes the Watcher wake the owner when packets arrive or can be sent. Each socket
// wakes the owner only once (EPOLLONESHOT), so Arm must be called before each sleep.
//
// If a localSocket has a direct socket, Arm calls Watcher.Signal, and the owner must
// call Poll before it sleeps.
//
// If the sockets stayed armed, round trips in event mode would take 1.45 times as long;
// see docs/performance.md.
func (c *Conn) Arm() {
	for _, u := range c.sockets {
		if u.direct.mustEnd() {
			c.cfg.Watcher.Signal()
			continue
		}
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
