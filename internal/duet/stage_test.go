package duet_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A stage is what a player has for all pieces.
type stage struct {
	device verbs.Device
	vector int // of its completion queues
	events *cm.EventChannel
	pd     verbs.PD
	peer   netip.AddrPort // of the listeners, for who connects
	// Listeners, for who does not; and what has come to their channel.
	connections, lookups *cm.ID
	seen                 []event
}

// An event is what is kept of a cm.Event.
type event struct {
	typ   cm.EventType
	id    *cm.ID
	owner *cm.ID // the listener for a request, else id
	err   error
	param cm.ConnParam
	ud    cm.UDParam
}

// TestDuet has both players in this process.
func TestDuet(t *testing.T) {
	p, err := soft.Open(&soft.Config{Vectors: 2, Path: soft.PathWire, WirePort: freeUDPPort(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	second := newStage(t, p, 0)
	second.listen(t, netip.MustParseAddrPort("127.0.0.1:0"))
	first := newStage(t, p, 1)
	first.peer = second.connections.LocalAddr()
	perform(t, func(t *testing.T, piece piece) {
		t.Run("first", func(t *testing.T) {
			t.Parallel()
			piece.first(first.enter(t))
		})
		t.Run("second", func(t *testing.T) {
			t.Parallel()
			piece.second(second.enter(t))
		})
	})
}

// freeUDPPort is one that nobody has at the moment.
func freeUDPPort(t *testing.T) uint16 {
	c, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// The environment says who a process is: the device, and its role.
const (
	envProvider = "DUET_PROVIDER" // and for the soft device:
	envPath     = "DUET_PATH"
	envListen   = "DUET_LISTEN"  // the second player, and its address
	envConnect  = "DUET_CONNECT" // the first player, and the address of the second
)

// TestPlayer is one player. The other has to play the same pieces.
func TestPlayer(t *testing.T) {
	s := ownStage(t)
	toldToStop, cancel := signal.NotifyContext(t.Context(), os.Interrupt)
	defer cancel()
	perform(t, func(t *testing.T, piece piece) { s.play(s.enter(t), piece) })
	if s.connections != nil {
		s.stay(t, toldToStop)
	}
}

// stay answers what the first player may repeat, until the second is told to stop.
func (s *stage) stay(t *testing.T, ctx context.Context) {
	for ; ctx.Err() == nil; runtime.Gosched() {
		s.fetch(t)
	}
}

// ownStage is that of a process with one player.
func ownStage(t *testing.T) *stage {
	listen, connect := os.Getenv(envListen), os.Getenv(envConnect)
	if listen+connect == "" {
		t.Skipf("it needs another process: one with %s, one with %s", envListen, envConnect)
	}
	addr, err := netip.ParseAddrPort(listen + connect)
	require.NoError(t, err)
	p, err := provider.Open(os.Getenv(envProvider), &provider.Config{Path: os.Getenv(envPath), Vectors: 1, Addr: addr.Addr()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	s := newStage(t, p, 0)
	if listen != "" {
		s.listen(t, addr)
	} else {
		s.peer = addr
	}
	return s
}

func newStage(t *testing.T, p cm.Provider, vector int) *stage {
	devices, err := p.Devices()
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	s := &stage{device: devices[0], vector: vector}
	s.events, err = cm.OpenChannel(p)
	require.NoError(t, err)
	closing(t, s.events)
	s.pd, err = s.device.AllocPD()
	require.NoError(t, err)
	closing(t, s.pd)
	return s
}

// listen makes the stage the second player's. Both listeners have one port.
func (s *stage) listen(t *testing.T, addr netip.AddrPort) {
	for _, l := range []struct {
		ps cm.PortSpace
		id **cm.ID
	}{{cm.TCP, &s.connections}, {cm.UDP, &s.lookups}} {
		id, err := s.events.NewID(l.ps)
		require.NoError(t, err)
		closing(t, id)
		require.NoError(t, id.Bind(addr))
		require.NoError(t, id.Listen(8))
		*l.id, addr = id, id.LocalAddr()
	}
	os.Stdout.WriteString("listening on " + addr.String() + "\n")
}

func (s *stage) play(p *player, piece piece) {
	if s.connections != nil {
		piece.second(p)
	} else {
		piece.first(p)
	}
}

// fetch takes the next event, if there is one.
func (s *stage) fetch(t *testing.T) {
	ev, err := s.events.Next()
	require.NoError(t, err)
	if ev == nil {
		return
	}
	kept := event{ev.Type, ev.ID, ev.ID, ev.Err, ev.Param, ev.UD}
	if ev.Listener != nil {
		kept.owner = ev.Listener
	}
	kept.param.PrivateData = slices.Clone(ev.Param.PrivateData)
	require.NoError(t, ev.Ack())
	if kept.typ != cm.TimewaitExit {
		s.seen = append(s.seen, kept)
	}
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}
