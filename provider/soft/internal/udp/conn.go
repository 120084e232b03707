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
	// sendBatch and receiveBatch are how many packets go with one call of the
	// system, and receiveRounds how many such calls one drive makes.
	sendBatch     = 64
	receiveBatch  = 32
	receiveRounds = 2
	// spinPolls is how often one drive of an owner that finds nothing asks the
	// sockets: the rest of its turn takes nearly as long as asking, and a packet
	// that comes meanwhile has to wait.
	spinPolls = 4
	// drainRounds is how many such calls find all that a socket can hold.
	drainRounds = 64
	// packetBufSize is the room for a packet, a multiple of a cache line.
	packetBufSize = (wire.MaxPacket + 63) &^ 63
)

// A Watcher makes descriptors wake the owner of a Conn. It belongs to the owner.
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

// A EventHandler handles the events of a descriptor.
type EventHandler interface {
	OnReady(fd int, events uint32)
}

// A Config says what a Conn uses.
type Config struct {
	Ports *Ports
	// Slot is the number of the shard, less than the number of slots of Ports.
	Slot uint32
	// Shards is the number of shards that may use the limits of the process together.
	Shards  int
	Sink    Sink          // receives the packets
	Watcher Watcher       // wakes the owner
	Counts  *counters.Set // counts the packets
}

// Conn sends and receives the packets of a shard with UDP sockets, one for each local
// address that its queue pairs use. It belongs to the shard.
type Conn struct {
	cfg           Config
	sockets       []*localSocket
	overflowCount int  // number of additional sockets of all of sockets
	foundNothing  bool // the last poll found no packets
}

// NewConn returns a Conn without sockets.
func NewConn(cfg *Config) *Conn { return &Conn{cfg: *cfg} }

// InUse reports whether there are sockets to poll.
func (l *Conn) InUse() bool { return len(l.sockets) > 0 }

// OverflowSockets returns the number of additional sockets, which only the Watcher
// reports as readable.
func (l *Conn) OverflowSockets() int { return l.overflowCount }

// A localSocket is a shard's socket on one local address.
type localSocket struct {
	link           *Conn
	port           *localPort
	fd             int
	users          int
	dests          map[destHeader]*destination // of connections
	others         map[destHeader]*destination // of datagram queue pairs
	connectedLimit int                         // that dests may have
	send           sender
	recv           receiver
	relief         overflowSockets
	asked          uint32 // events that epoll is to tell of, once
}

// maxConnected bounds how many destinations of a socket have one of their own.
const maxConnected = 512

// connectedLimitOf is that bound where the sockets of so many shards are to leave three
// quarters of the descriptors to the program (setrlimit(2), RLIMIT_NOFILE).
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

var errTooManyShards = errors.New("too many shards on one address")

// open: see packetConn.
func (l *Conn) Open(to *Route) error {
	u, err := l.socket(to.Local)
	if err != nil {
		return err
	}
	u.users++
	if to.WantHeader {
		u.recv.receiveHeaders()
		u.relief.receiveHeaders()
	}
	to.socket, to.dest = u, u.dest(destHeader{to.Remote, to.TrafficClass, to.HopLimit}, !to.WantHeader)
	return nil
}

// dest is the destination of all routes with this header that are of connections,
// or of all that are not. Only the former may have an outlet: nobody would notice if
// what leaves by it did not arrive.
func (u *localSocket) dest(h destHeader, connected bool) *destination {
	dests := u.others
	if connected {
		dests = u.dests
	}
	d := dests[h]
	if d == nil {
		d = &destination{all: dests}
		d.set(u.port.local, h)
		dests[h] = d
		if connected && len(dests) <= u.connectedLimit {
			d.untilConnect = connectAfter
		}
	}
	d.users++
	return d
}

// forget gives up a destination for one of its users. What could not be sent yet
// goes by the outlet of all.
func (u *localSocket) forget(d *destination) {
	if d.users--; d.users > 0 {
		return
	}
	u.send.flush()
	d.disconnect()
	delete(d.all, d.header)
}

// socket is the shard's socket on an address.
func (l *Conn) socket(local netip.Addr) (*localSocket, error) {
	for _, u := range l.sockets {
		if u.port.local.Addr() == local {
			return u, nil
		}
	}
	port, err := l.cfg.Ports.acquire(local)
	if err != nil {
		return nil, err
	}
	u := &localSocket{link: l, port: port, connectedLimit: connectedLimitOf(l.cfg.Shards), dests: make(map[destHeader]*destination), others: make(map[destHeader]*destination)}
	if err := u.join(); err != nil {
		port.release()
		return nil, err
	}
	l.sockets = append(l.sockets, u)
	return u, nil
}

func (u *localSocket) join() (err error) {
	fds, err := u.port.join(u.link.cfg.Slot)
	if err != nil {
		return err
	}
	u.fd = fds[0]
	u.send = newSender(u.fd, sendBatch, packetBufSize, u.link.cfg.Counts)
	u.recv = newReceiver(u.fd, u.port.local, receiveBatch, packetBufSize, u.link.cfg.Counts)
	if err := u.link.cfg.Watcher.Watch(u.fd, 0, u); err != nil {
		return err
	}
	u.relief.init(u, fds[1:])
	return nil
}

// close: see packetConn. The last route of a socket takes it away.
func (l *Conn) Close(to *Route) {
	u := to.socket
	u.forget(to.dest)
	if u.users--; u.users > 0 {
		return
	}
	u.relief.close()
	l.cfg.Watcher.Unwatch(u.fd)
	for i, other := range l.sockets {
		if other == u {
			l.sockets = append(l.sockets[:i], l.sockets[i+1:]...)
			break
		}
	}
	u.port.release()
}

// room: see packetConn.
func (l *Conn) Buffer(to *Route, size int) []byte {
	if b := to.socket.send.buffer(); b != nil {
		return b[:size]
	}
	return nil
}

// push: see packetConn.
func (l *Conn) Push(to *Route, p wire.Packet) { to.socket.send.put(p, to.dest) }

// flush: see packetConn.
func (l *Conn) Flush() {
	for _, u := range l.sockets {
		if u.send.queued > 0 {
			u.send.flush()
		}
	}
}

// doubt: see packetConn. Were the identification wrong that an outlet counts,
// the peer would drop all that comes by it.
func (l *Conn) OnTimeout(to *Route) { to.dest.disconnect() }

// poll takes what has arrived, and sends what the system did not take before.
// With spin it waits a little, if the last one found nothing.
func (l *Conn) Poll(spin bool) {
	rounds := 1
	if spin && l.foundNothing {
		rounds = spinPolls
	}
	l.foundNothing = true
	for ; rounds > 0 && l.foundNothing; rounds-- {
		for _, u := range l.sockets {
			if u.poll() {
				l.foundNothing = false
			}
		}
	}
	l.Flush()
}

// drain takes all that has arrived, within reason: an owner that was away has not
// seen what may be there for long.
func (l *Conn) Drain() {
	for _, u := range l.sockets {
		for range drainRounds {
			if u.recv.receive(l.cfg.Sink) == 0 {
				break
			}
		}
		u.relief.drain()
	}
}

// poll takes some of what has arrived, and reports whether there was anything.
func (u *localSocket) poll() (found bool) {
	u.send.mayConnect = !u.send.connectDisabled
	full := 0
	for range receiveRounds {
		n := u.recv.receive(u.link.cfg.Sink)
		found = found || n > 0
		if n < receiveBatch {
			break
		}
		full++
	}
	u.relief.polled(full)
	return found
}

// OnReady implements EventHandler.
func (u *localSocket) OnReady(fd int, _ uint32) {
	if fd == u.fd {
		u.asked = 0
	}
	u.poll()
	u.link.Flush()
}

// watch has the shard woken when something arrives, or when the system takes
// packets again. It asks each time that the owner may go to sleep, and not for
// good: while epoll is interested, every packet costs its sender a walk through
// those that wait, though an owner that spins needs no waking.
func (l *Conn) Arm() {
	for _, u := range l.sockets {
		events := uint32(unix.EPOLLIN | unix.EPOLLONESHOT)
		if out := u.send.blocked(); out == &u.send.shared {
			events |= unix.EPOLLOUT
		} else if out != nil {
			out.watch(l.cfg.Watcher, u)
		}
		if events != u.asked {
			u.asked = events
			l.cfg.Watcher.Rewatch(u.fd, events)
		}
	}
}
