//go:build linux

package udp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A testOwner is the owner, the Watcher and the Sink of a Conn. It counts packets by
// queue pair.
type testOwner struct {
	epoll   *fdevent.Dispatcher
	got     map[uint32]int // received packets by queue pair number
	signals int            // number of calls of Signal
	unused  int            // number of calls of Unused
	inUse   bool           // argument of the last call of InUse
}

func newTestOwner(t *testing.T) *testOwner {
	epoll, err := fdevent.NewDispatcher()
	require.NoError(t, err)
	t.Cleanup(epoll.Close)
	return &testOwner{epoll: epoll, got: make(map[uint32]int)}
}

func (o *testOwner) Receive(p wire.Packet, _ *Header) bool {
	o.got[p.BTH().DestQP()]++
	return true
}

func (o *testOwner) Watch(fd int, events uint32, h fdevent.Handler) error {
	return o.epoll.Add(fd, events, h)
}

func (o *testOwner) Rewatch(fd int, events uint32) { o.epoll.Modify(fd, events) }
func (o *testOwner) Unwatch(fd int)                { o.epoll.Remove(fd) }
func (o *testOwner) Signal()                       { o.signals++ }
func (o *testOwner) InUse(is bool)                 { o.inUse = is }
func (o *testOwner) Unused()                       { o.unused++ }
func (o *testOwner) handleReady()                  { _, _ = o.epoll.Dispatch(0) }

// A connRig has a Conn with one open route, and a socket that sends to it.
type connRig struct {
	*rig
	*testOwner
	ports *Ports
	conn  *Conn
	u     *localSocket // the only socket of conn
	// a route of conn; it is open so that the socket stays open
	route Route
}

const testSlots = 2

func newConnRig(t *testing.T) *connRig {
	c := &connRig{rig: newRig(t, "127.9.0.1", "127.9.0.2"), testOwner: newTestOwner(t)}
	c.ports = testPorts(c.to.local.Port(), testSlots)
	c.conn = NewConn(&Config{Ports: c.ports, Shards: one, Sink: c.testOwner, Watcher: c.testOwner, Counts: new(counters.Set)})
	home := netip.MustParseAddr("127.9.0.3")
	c.route = Route{Local: home, Remote: home}
	c.open()
	t.Cleanup(func() { c.conn.Close(&c.route) })
	c.to.set(c.to.local, destHeader{remote: home})
	return c
}

func (c *connRig) open() {
	require.NoError(c.t, c.conn.Open(&c.route))
	c.u = c.route.socket
}

func (c *connRig) counted(id counters.ID) uint64 { return c.conn.cfg.Counts.Load(id) }

// sendTo sends a packet to a queue pair, with the ICRC for the given identification.
func (c *connRig) sendTo(qpn uint32, payload int, id uint16) {
	p := wire.Build(make([]byte, packetBufSize), wire.SendOnly, payload)
	p.BTH().SetDestQP(qpn)
	p.BTH().SetPSN(psn.New(1))
	c.to.flow.Seal(p, id)
	to := unix.SockaddrInet4{Port: int(c.to.local.Port()), Addr: c.route.Local.As4()}
	require.NoError(c.t, unix.Sendto(c.send.shared.fd, p.Bytes(), 0, &to))
}

// drive receives all packets that were sent.
func (c *connRig) drive() {
	c.loop.drain(c.t)
	for range 256 {
		c.conn.Poll(false)
		c.handleReady()
		c.conn.PollOverflow()
	}
}

// one is Config.Shards of a device with one shard.
func one() int { return 1 }
