//go:build linux

package udp

import (
	"errors"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

const (
	// sendBatch and receiveBatch are the largest numbers of packets of one system call.
	// Both are arbitrary.
	sendBatch    = 64
	receiveBatch = 32
	// receiveRounds is the largest number of calls with which one poll of a socket
	// receives. It is arbitrary.
	receiveRounds = 2
	// spinPolls is how many times Poll reads the sockets if there are no packets. The
	// rest of the owner's loop takes nearly as long as one read, and a packet that
	// arrives in that time has to wait.
	spinPolls = 4
	// drainRounds is the largest number of calls with which Drain reads one socket: 2,048
	// packets, more than a socket holds with the default of net.core.rmem_max.
	drainRounds = 64
	// packetBufSize is the size of a buffer for a packet, a multiple of a cache line.
	packetBufSize = (wire.MaxPacket + 63) &^ 63
)

// A Watcher makes events of descriptors wake the owner of a Conn. It belongs to the
// owner.
type Watcher interface {
	// Watch makes events of a descriptor wake the owner; see epoll_ctl(2) for events. They
	// are passed to h when the owner handles its events.
	Watch(fd int, events uint32, h EventHandler) error
	// Rewatch changes the events of a descriptor that is watched.
	Rewatch(fd int, events uint32)
	// Unwatch ends Watch, if the descriptor is watched.
	Unwatch(fd int)
	// Signal makes the owner drive the Conn again before it sleeps.
	Signal()
}

// An EventHandler handles events of a descriptor that a Watcher watches.
type EventHandler interface {
	// OnReady is called by the owner with the events of epoll_ctl(2) that have occurred.
	OnReady(fd int, events uint32)
}

// A Config has what a Conn uses. All fields but Slot are required.
type Config struct {
	Ports *Ports // sockets of the device
	// Slot is the number of the shard, less than the number of slots of Ports.
	Slot uint32
	// Shards is the number of shards that may use the limits of the process together.
	Shards  int
	Sink    Sink          // receives the packets that arrive
	Watcher Watcher       // watches the sockets for the owner
	Counts  *counters.Set // counts the packets
}

// A Conn sends and receives the packets of a shard with UDP sockets, one for each local
// address that the queue pairs of the shard use. It belongs to the goroutine that drives
// the shard. It never blocks, and owns the buffers of the packets.
type Conn struct {
	cfg           Config
	sockets       []*localSocket
	overflowCount int  // number of overflow sockets
	foundNothing  bool // the last poll found no packets
}

// NewConn returns a Conn without open routes. It copies cfg.
func NewConn(cfg *Config) *Conn { return &Conn{cfg: *cfg} }

// InUse reports whether there are sockets to poll.
func (c *Conn) InUse() bool { return len(c.sockets) > 0 }

// OverflowSockets returns the number of overflow sockets. Poll does not read them; the
// Watcher reports them when they are readable.
func (c *Conn) OverflowSockets() int { return c.overflowCount }

// A localSocket is a shard's socket on one local address.
type localSocket struct {
	conn  *Conn
	port  *localPort
	fd    int
	users int // number of open routes
	// connDests has the destinations of connections, and udDests those of UD queue pairs.
	connDests map[destHeader]*destination
	udDests   map[destHeader]*destination
	// connectedLimit is the number of connDests beyond which a new destination gets no
	// connected socket.
	connectedLimit int
	send           sender
	recv           receiver
	overflow       overflowSockets
	// armedEvents has the events that Arm has requested and that have not occurred yet.
	armedEvents uint32
}

// maxConnected bounds the number of connected sockets of a localSocket. It is arbitrary.
const maxConnected = 512

// connectedLimitOf returns the limit of connected sockets of a localSocket. The sockets
// of all shards together leave three quarters of the descriptors to the program
// (setrlimit(2), RLIMIT_NOFILE).
func connectedLimitOf(shards int) int { return min(maxConnected, descriptorShare(shards, 4)) }

// descriptorShare returns how many descriptors each shard may use for a purpose, if
// all shards together may use one part in parts of the limit (setrlimit(2),
// RLIMIT_NOFILE).
func descriptorShare(shards, parts int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32)) / parts / shards
}

var errTooManySockets = errors.New("too many sockets on one address")

// Open prepares a route for use, until Close. It opens the socket of the local address if
// the shard has none there. It returns an error if no packets can be sent along the
// route.
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

// dest returns the destination with a header, and adds a user to it. Routes with the same
// header share a destination. Routes of connections and of UD queue pairs do not share
// one, because only a destination of connections may have a connected socket: a UD queue
// pair would not notice that its packets do not arrive.
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

// releaseDest removes a user of a destination. The last user removes the destination; its
// packets that the system does not accept now are sent through the shared socket.
func (u *localSocket) releaseDest(d *destination) {
	if d.users--; d.users > 0 {
		return
	}
	u.send.flush()
	d.disconnect()
	delete(d.table, d.header)
}

// socketAt returns the shard's socket on an address. It opens the socket if there is
// none.
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

// join opens the socket, or takes over the sockets that the shard already has at the
// port.
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

// Close ends Open. It closes the socket if the route is the last one that uses it.
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

// Buffer returns size bytes for one packet along to. It returns nil if the buffers are
// full and the system accepts no packets now. The caller owns the bytes until Push. The
// next call of Buffer without Push discards them.
func (c *Conn) Buffer(to *Route, size int) []byte {
	if b := to.socket.send.buffer(); b != nil {
		return b[:size]
	}
	return nil
}

// Push queues the packet that was built in the last Buffer. The packet is complete except
// for its ICRC.
func (c *Conn) Push(to *Route, p wire.Packet) { to.socket.send.put(p, to.dest) }

// Flush sends the queued packets. Packets that the system does not accept now stay
// queued, and the next call tries again.
func (c *Conn) Flush() {
	for _, u := range c.sockets {
		if u.send.queued > 0 {
			u.send.flush()
		}
	}
}

// OnTimeout reports that the peer did not acknowledge a packet along to in time. The
// destination then uses the shared socket for some time. If the identification that a
// connected socket counts were wrong, the peer would drop all its packets.
func (c *Conn) OnTimeout(to *Route) { to.dest.disconnect() }

// Poll receives some of the packets that have arrived, and sends the packets that are
// queued. With spin, it reads the sockets several times if there are no packets and the
// last call found none.
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

// Drain receives all packets that have arrived, up to drainRounds calls for each socket.
// The owner calls it before a timer fires, so that the timer does not report a packet as
// missing that waits in a socket.
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
// any.
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

// OnReady implements EventHandler.
func (u *localSocket) OnReady(fd int, _ uint32) {
	if fd == u.fd {
		u.armedEvents = 0
	}
	u.poll()
	u.conn.Flush()
}

// Arm makes the Watcher wake the owner when packets arrive, or when the system accepts
// packets again. The owner calls it each time before it may sleep. The events are
// requested for one time only: while epoll watches a socket, the kernel goes through the
// waiters for each packet that arrives, and an owner that polls needs no wakeup. In event
// mode that changed the round trip by the factor 0.69; see bench/README.md.
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
