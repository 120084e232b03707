//go:build linux

package soft

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
)

// connectFrom sends a connection request from the source address src to the listener l.
func (s *party) connectFrom(src string, l *cm.ID) *cm.ID {
	s.T.Helper()
	id := s.ID(l.PortSpace())
	require.NoError(s.T, id.ResolveAddr(netip.AddrPortFrom(netip.MustParseAddr(src), 0), l.LocalAddr(), time.Second))
	s.Want(cm.AddrResolved, id)
	require.NoError(s.T, id.ResolveRoute(time.Second))
	s.Want(cm.RouteResolved, id)
	s.CreateQP(id)
	require.NoError(s.T, id.Connect(nil))
	return id
}

// overUDP reports whether an ID has an RC queue pair on the wire path.
func overUDP(id *cm.ID) bool {
	q := id.QP().(*qp.QP)
	q.Shard.Enter()
	defer q.Shard.Leave()
	return deviceOf(q).waysOf(q.Shard).local.Conn(q.Num()) == nil
}

// TestPaths connects two devices with various values of Config.Path. It checks the path,
// and sends a message in each direction.
func TestPaths(t *testing.T) {
	for _, test := range []struct {
		name           string
		client, server Path
		wire           bool
	}{
		{"auto to auto", PathAuto, PathAuto, false},
		{"auto to local", PathAuto, PathLocal, false},
		{"local to auto", PathLocal, PathAuto, false},
		{"wire to wire", PathWire, PathWire, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			port := freeport.UDP(t)
			client := openParty(t, &Config{Path: test.client, WirePort: port})
			server := openParty(t, &Config{Path: test.server, WirePort: port})
			l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
			active := client.connectFrom("127.9.1.2", l)
			passive, _ := server.Request(l)
			server.CreateQP(passive)
			require.NoError(t, passive.Accept(nil))
			client.Want(cm.Established, active)
			server.Want(cm.Established, passive)
			require.Equal(t, test.wire, overUDP(active))
			require.Equal(t, test.wire, overUDP(passive))
			exchange(t, client, active.QP(), server, passive.QP())
			exchange(t, server, passive.QP(), client, active.QP())

			cmside.Disconnect(client.Side, active, server.Side, passive)
			client.Quiet()
		})
	}
}

// A listener with PathWire is not reachable on the local path. If the client has
// PathAuto, the error names the reason.
func TestPathWireOnThisHost(t *testing.T) {
	for path, cause := range map[Path]string{PathLocal: "", PathAuto: "no process listens on the local path"} {
		port := freeport.UDP(t)
		client := openParty(t, &Config{Path: path, WirePort: port})
		server := openParty(t, &Config{Path: PathWire, WirePort: port})
		l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
		id := client.connectFrom("127.9.1.2", l)
		ev := client.Want(cm.Rejected, id)
		require.EqualValues(t, cm.RejectInvalidServiceID, ev.Status)
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		require.ErrorContains(t, ev.Err, cause)
		server.Quiet()
		require.Zero(t, countsOf(t, server.p.dev)["rcvd_pkts"])
	}
}

// A device with PathWire can not dial its own address. The error names the reason.
func TestPathWireToOwnAddress(t *testing.T) {
	port := freeport.UDP(t)
	client := openParty(t, &Config{Path: PathWire, WirePort: port})
	server := openParty(t, &Config{WirePort: port})
	l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
	id := client.connectFrom("127.9.1.1", l)
	ev := client.Want(cm.Rejected, id)
	require.EqualValues(t, cm.RejectInvalidServiceID, ev.Status)
	require.ErrorContains(t, ev.Err, "this device itself has the UDP port of that address")
	server.Quiet()
}

// Only one device of a host can use the wire path at an address and UDP port. Another
// one gets an error.
func TestPathWireTaken(t *testing.T) {
	port := freeport.UDP(t)
	first := openParty(t, &Config{Path: PathWire, WirePort: port})
	second := openParty(t, &Config{Path: PathWire, WirePort: port})
	l := first.Listen(cm.TCP, "127.9.1.1:0", 0)

	id := second.ID(cm.TCP)
	require.NoError(t, id.ResolveAddr(netip.MustParseAddrPort("127.9.1.1:0"), l.LocalAddr(), time.Second))
	require.ErrorIs(t, second.Want(cm.AddrError, id).Err, cm.ErrAddrInUse)

	other := second.ID(cm.TCP)
	require.NoError(t, other.Bind(netip.MustParseAddrPort("127.9.1.1:0")))
	require.ErrorIs(t, other.Listen(0), cm.ErrAddrInUse)

	// If another device has the wire path at the address, PathAuto listens only on the
	// local path.
	auto := openParty(t, &Config{WirePort: port})
	auto.Connecting(cm.TCP, auto.Listen(cm.TCP, "127.9.1.1:0", 0).LocalAddr(), nil)
}

// A wildcard listener on the wire path accepts requests at the addresses of all
// interfaces.
func TestPathWireWildcard(t *testing.T) {
	s := openParty(t, &Config{Path: PathWire, WirePort: freeport.UDP(t)})
	l := s.Listen(cm.TCP, "0.0.0.0:0", 0)
	active := s.Connecting(cm.TCP, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), l.LocalAddr().Port()), nil)
	passive, _ := s.Request(l)
	s.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	s.Want(cm.Established, active)
	s.Want(cm.Established, passive)
	exchange(t, s, active.QP(), s, passive.QP())
}

// Connection management decides two parameters of the wire path: the type of service,
// and which sides advertise receive buffers.
func TestWireConnectionParameters(t *testing.T) {
	const tos = 0x68
	port := freeport.UDP(t)
	client := openParty(t, &Config{Path: PathWire, WirePort: port})
	server := openParty(t, &Config{Path: PathWire, WirePort: port})
	for _, said := range [][2]bool{{true, false}, {false, true}} {
		l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
		active := client.ID(cm.TCP)
		require.NoError(t, active.SetTOS(tos))
		require.NoError(t, active.Bind(netip.MustParseAddrPort("127.9.1.2:0")))
		client.Resolve(active, l.LocalAddr())
		client.CreateQP(active)
		require.NoError(t, active.Connect(&cm.ConnParam{FlowControl: said[0]}))
		passive, _ := server.Request(l)
		server.CreateQP(passive)
		require.NoError(t, passive.Accept(&cm.ConnParam{FlowControl: said[1]}))
		client.Want(cm.Established, active)
		server.Want(cm.Established, passive)
		for i, id := range []*cm.ID{active, passive} {
			attr, err := id.QP().Query()
			require.NoError(t, err)
			require.EqualValues(t, tos, attr.AH.TrafficClass)
			require.Equal(t, connmgr.CreditFlow{Sends: said[i], Receives: said[1-i]}, deviceOf(id.QP()).bindings.flow(id.QP().Num()))
		}
		cmside.Disconnect(client.Side, active, server.Side, passive)
	}
}

// Connection management hears of the first packet of the peer, once.
func TestFirstDataIsHeard(t *testing.T) {
	s := openParty(t, &Config{Path: PathWire, WirePort: freeport.UDP(t)})
	l := s.Listen(cm.TCP, "127.9.1.1:0", 0)
	active, passive := connectTo(s, s, l)
	var heard atomic.Int32
	s.p.dev.bindings.add(passive.QP().Num(), &connmgr.Binding{Hearer: hearer(func() { heard.Add(1) })}, false)
	works(t, s, active.QP())
	works(t, s, active.QP())
	require.EqualValues(t, 1, heard.Load())
}
