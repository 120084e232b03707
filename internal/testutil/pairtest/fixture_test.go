package pairtest_test

import (
	"context"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fixture has the objects of one side for all scenarios.
type fixture struct {
	device verbs.Device
	// Completion vector of all CQs.
	vector  int
	channel *cm.EventChannel
	pd      verbs.PD
	// Address of the passive side. Used by the active side only.
	remoteAddr netip.AddrPort
	// Listeners of the passive side; nil on the active side.
	tcpListener, udpListener *cm.ID
	// Events that await() has not returned yet.
	events []event
}

// An event has the fields of a cm.Event that are tested.
type event struct {
	typ cm.EventType
	id  *cm.ID
	// Listener if the event is a connection request, otherwise the same as id.
	owner *cm.ID
	err   error
	param cm.MessageParam
	ud    cm.UDParam
}

// TestPairInProcess runs both sides in this process.
func TestPairInProcess(t *testing.T) {
	p, err := soft.Open(&soft.Config{Path: soft.PathWire, WirePort: freeport.UDP(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	passive := newFixture(t, p, 0)
	passive.listen(t, netip.MustParseAddrPort("127.0.0.1:0"))
	active := newFixture(t, p, 1)
	active.remoteAddr = passive.tcpListener.LocalAddr()
	runScenarios(t, func(t *testing.T, sc scenario) {
		t.Run("active", func(t *testing.T) {
			t.Parallel()
			sc.active(active.newPeer(t))
		})
		t.Run("passive", func(t *testing.T) {
			t.Parallel()
			sc.passive(passive.newPeer(t))
		})
	})
}

// Environment variables that choose a process's device and side.
const (
	envProvider = "PAIR_PROVIDER" // name of the provider
	envPath     = "PAIR_PATH"
	// The passive side listens on this address.
	envListen = "PAIR_LISTEN"
	// The active side connects to this address.
	envConnect = "PAIR_CONNECT"
)

// TestPeer runs one side of all scenarios. Another process runs the other side.
func TestPeer(t *testing.T) {
	f := fixtureFromEnv(t)
	stopped, cancel := signal.NotifyContext(t.Context(), os.Interrupt)
	defer cancel()
	runScenarios(t, func(t *testing.T, sc scenario) { f.run(f.newPeer(t), sc) })
	if f.tcpListener != nil {
		f.serveRetransmissions(t, stopped)
	}
}

// serveRetransmissions handles events until ctx ends. If the last answer of the passive
// side is lost, the active side sends its message again. So the passive side must still
// be there.
func (f *fixture) serveRetransmissions(t *testing.T, ctx context.Context) {
	for ; ctx.Err() == nil; runtime.Gosched() {
		f.takeEvent(t)
	}
}

// fixtureFromEnv returns the fixture that the environment variables choose.
func fixtureFromEnv(t *testing.T) *fixture {
	listen, connect := os.Getenv(envListen), os.Getenv(envConnect)
	if listen+connect == "" {
		t.Skipf("needs two processes: one with %s, one with %s", envListen, envConnect)
	}
	addr, err := netip.ParseAddrPort(listen + connect)
	require.NoError(t, err)
	p := openFromEnv(t, addr)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	f := newFixture(t, p, 0)
	if listen != "" {
		f.listen(t, addr)
	} else {
		f.remoteAddr = addr
	}
	return f
}

// openFromEnv opens the provider that the environment variables choose for an address.
func openFromEnv(t *testing.T, addr netip.AddrPort) cm.Provider {
	cfg := &provider.Config{Soft: &soft.Config{}, Addr: addr.Addr()}
	if path := os.Getenv(envPath); path != "" {
		require.NoError(t, cfg.Soft.Path.UnmarshalText([]byte(path)))
	}
	p, err := provider.Open(os.Getenv(envProvider), cfg)
	require.NoError(t, err)
	return p
}

func newFixture(t *testing.T, p cm.Provider, vector int) *fixture {
	devices, err := p.Devices()
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	f := &fixture{device: devices[0], vector: vector}
	f.channel, err = cm.OpenChannel(p)
	require.NoError(t, err)
	closeAtCleanup(t, f.channel)
	f.pd, err = f.device.AllocPD()
	require.NoError(t, err)
	closeAtCleanup(t, f.pd)
	return f
}

// listen creates the listeners of the passive side. Both port spaces use the same port.
func (f *fixture) listen(t *testing.T, addr netip.AddrPort) {
	for _, l := range []struct {
		ps cm.PortSpace
		id **cm.ID
	}{{cm.TCP, &f.tcpListener}, {cm.UDP, &f.udpListener}} {
		id, err := f.channel.NewID(l.ps)
		require.NoError(t, err)
		closeAtCleanup(t, id)
		require.NoError(t, id.Bind(addr))
		require.NoError(t, id.Listen(8))
		*l.id, addr = id, id.LocalAddr()
	}
	os.Stdout.WriteString("listening on " + addr.String() + "\n")
}

func (f *fixture) run(p *peer, sc scenario) {
	if f.tcpListener != nil {
		sc.passive(p)
	} else {
		sc.active(p)
	}
}

// takeEvent stores an event of the channel, if there is one.
func (f *fixture) takeEvent(t *testing.T) {
	ev, ok, err := f.channel.Next()
	require.NoError(t, err)
	if !ok {
		return
	}
	copied := event{ev.Type, ev.ID, ev.ID, ev.Err, ev.Param, ev.UD}
	if ev.Listener != nil {
		copied.owner = ev.Listener
	}
	require.NoError(t, ev.Ack())
	if copied.typ != cm.TimewaitExit {
		f.events = append(f.events, copied)
	}
}

func closeAtCleanup(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}
