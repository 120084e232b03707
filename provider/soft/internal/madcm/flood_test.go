//go:build linux

package madcm

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A floodSim simulates a flood: many sources send REQs, but never confirm a REP. One
// client connects in the usual way. A datagram takes one millisecond from sender to
// receiver.
type floodSim struct {
	*madSim
	l        *cm.ID
	requests int // number of REQs that the flood has sent
	// number of messages that the server has sent to sources of the flood
	answers  int
	accepted uint32
	open     map[*cm.ID]bool // IDs of the server's established connections
}

func newFloodSim(t *testing.T) *floodSim {
	f := &floodSim{madSim: newMADSim(t), open: make(map[*cm.ID]bool)}
	f.l = f.listen(cm.TCP, 0)
	f.copies = func(_ *wire.MAD, to netip.Addr) int {
		if to == clientAddr || to == serverAddr {
			return 1
		}
		f.answers++
		return 0
	}
	return f
}

func (f *floodSim) sendREQ(source netip.Addr) {
	f.requests++
	var m wire.MAD
	encodeREQ(&m, &connmgr.REQ{
		Endpoints: connmgr.Endpoints{Src: netip.AddrPortFrom(source, 40000), Dst: f.l.LocalAddr()},
		QPParams:  connmgr.QPParams{QPN: uint32(f.requests)%0xffff00 + 2}, Retry: 7, MTU: 3,
	}, 0x1122334455667788, uint32(f.requests))
	f.inject(&m, source, serverAddr)
}

// tick advances the clock by d, and lets the server handle the datagrams that have
// arrived.
func (f *floodSim) tick(d time.Duration) {
	f.clock.Now = f.clock.Now.Add(d)
	for range len(f.inFlight) {
		f.deliverOne()
	}
	f.drive()
	for len(f.server.TC.Probe().Queued()) > 0 {
		f.serve(f.server.Next())
	}
}

func (f *floodSim) serve(ev *cm.Event) {
	id, typ := ev.ID, ev.Type
	require.NoError(f.t, ev.Ack())
	switch typ {
	case cm.ConnectRequest:
		f.accepted++
		if id.Accept(&cm.ConnParam{QPNum: 2 + f.accepted}) != nil {
			f.server.End(id)
		}
	case cm.Established:
		f.open[id] = true
	case cm.Disconnected:
		require.True(f.t, f.open[id])
		require.NoError(f.t, id.Disconnect(nil))
	case cm.TimewaitExit:
		delete(f.open, id)
		f.server.End(id)
	default:
		require.Equal(f.t, cm.Unreachable, typ)
		f.server.End(id)
	}
}

// awaitClient calls flood() in each millisecond until the client has an event, which must
// be of the given type. It returns the time that has passed.
func (f *floodSim) awaitClient(typ cm.EventType, id *cm.ID, flood func()) time.Duration {
	f.t.Helper()
	began := f.clock.Now
	for len(f.client.TC.Probe().Queued()) == 0 {
		require.Less(f.t, f.clock.Now.Sub(began), time.Minute)
		flood()
		f.tick(time.Millisecond)
	}
	f.client.Want(typ, id)
	return f.clock.Now.Sub(began)
}

// heapInUse collects the garbage, and then returns the bytes in use on the heap.
func heapInUse() int64 {
	runtime.GC()
	// The second collection frees memory that finalizers have released.
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// wantNoOtherRecords requires that the server has entries only for established
// connections.
func (f *floodSim) wantNoOtherRecords(mux *Mux) {
	f.t.Helper()
	n := len(f.open)
	require.Len(f.t, mux.conns, n)
	require.Len(f.t, mux.byPeer, n)
	require.Len(f.t, mux.byQP, n)
	require.LessOrEqual(f.t, len(mux.sources.conns), n)
	timers, _ := f.server.TC.Probe().Timers()
	require.LessOrEqual(f.t, timers, n)
	half := &f.listenerOf(f.l).halfOpen
	require.Zero(f.t, half.total+half.evicting+len(half.sources)+len(half.busiest))
}

// A client connects within 5 ms during a flood in which ten thousand sources per second
// send a REQ and never confirm the REP.
func TestWireCMFloodOfSources(t *testing.T) {
	const perTick = 10
	requests := 60_000 / seedDivisor
	if testing.Short() {
		requests /= 3
	}
	f := newFloodSim(t)
	mux := f.server.mux
	before, peak := heapInUse(), 0
	flood := func() {
		for range perTick {
			f.sendREQ(testSource(f.requests))
		}
		peak = max(peak, len(mux.conns))
	}
	for f.requests < requests {
		for range 200 {
			flood()
			f.tick(time.Millisecond)
		}
		id := f.connecting(cm.TCP, f.l.LocalAddr(), nil)
		require.LessOrEqual(t, f.awaitClient(cm.Established, id, flood), 5*time.Millisecond)
		require.NoError(t, id.Disconnect(nil))
		require.LessOrEqual(t, f.awaitClient(cm.Disconnected, id, flood), 5*time.Millisecond)
		f.client.Want(cm.TimewaitExit, id)
		f.client.End(id)
	}
	require.Empty(t, f.open)
	require.LessOrEqual(t, peak, defaultHalfOpen+2*perTick)
	require.Less(t, heapInUse()-before, int64(32<<20))
	for range 600 {
		f.tick(100 * time.Millisecond)
	}
	require.LessOrEqual(t, f.answers, amplification*f.requests)
	require.Positive(t, f.answers)
	f.wantNoOtherRecords(mux)
	require.Less(t, heapInUse()-before, int64(4<<20))
	t.Logf("%d requests, %d answers, at most %d at a time", f.requests, f.answers, peak)
}

// In a flood of 50,000 requests a second, each source gets its share of the half-open
// connections. The server reads few more requests than that, and looks up no more routes.
// A client that has connected before connects within 3 ms, even if each request of the
// flood comes from another source, so that no share limits them.
func TestWireCMFloodUnread(t *testing.T) {
	const seconds = 1
	// The half-open connections are renewed once in graceTime, or requestBatch of them in
	// each tick.
	for sources, limit := range map[int]int{
		1:       (seconds + 1) * defaultHalfOpen,
		250:     (seconds + 1) * defaultHalfOpen,
		1 << 30: (seconds + 1) * 1000 * requestBatch,
	} {
		t.Run(fmt.Sprint(sources), func(t *testing.T) { testFloodUnread(t, sources, seconds, limit) })
	}
}

func testFloodUnread(t *testing.T, sources, seconds, limit int) {
	const perTick = 50
	f := newFloodSim(t)
	clients := 0
	connect := func(flood func()) {
		id := f.connecting(cm.TCP, f.l.LocalAddr(), nil)
		require.LessOrEqual(t, f.awaitClient(cm.Established, id, flood), 3*time.Millisecond)
		require.NoError(t, id.Disconnect(nil))
		f.awaitClient(cm.Disconnected, id, flood)
		f.client.Want(cm.TimewaitExit, id)
		f.client.End(id)
		clients++
	}
	connect(func() {})
	flood := func() {
		for range perTick {
			f.sendREQ(testSource(f.requests % sources))
		}
	}
	for f.requests < seconds*1000*perTick/seedDivisor {
		for range 20 {
			flood()
			f.tick(time.Millisecond)
		}
		connect(flood)
	}
	read := uint64(f.requests) - f.counter(counters.CMRequestUnread)
	t.Logf("%d requests, %d were read, %d admitted; %d clients", f.requests, read, f.accepted, clients)
	require.LessOrEqual(t, int(f.accepted), limit+clients)
	// Few requests are read in vain: those with which the flood has filled the queue when it
	// began, and some others for each client.
	require.LessOrEqual(t, int(read), int(f.accepted)+maxRequests+2*clients)
	require.LessOrEqual(t, f.routes, int(read)+2*clients) // The clients look up routes too.
	for range 600 {
		f.tick(100 * time.Millisecond)
	}
	f.wantNoOtherRecords(f.server.mux)
}

// A client connects within 5 ms during a flood from few sources. The server drops most
// requests of the flood.
func TestWireCMFloodOfFewSources(t *testing.T) {
	f := newFloodSim(t)
	mux := f.server.mux
	flood := func() {
		for range 10 {
			f.sendREQ(testSource(f.requests % 250))
		}
		require.LessOrEqual(t, len(mux.conns), defaultHalfOpen+len(f.open)+20)
	}
	for range 20 {
		for range 50 {
			flood()
			f.tick(time.Millisecond)
		}
		id := f.connecting(cm.TCP, f.l.LocalAddr(), nil)
		require.LessOrEqual(t, f.awaitClient(cm.Established, id, flood), 5*time.Millisecond)
	}
	f.tick(time.Millisecond) // The RTU of the last connection arrives.
	require.Len(t, f.open, 20)
	require.Greater(t, f.counter(counters.CMRequestUnread), uint64(f.requests/2))
	for range 600 {
		f.tick(100 * time.Millisecond)
	}
	require.LessOrEqual(t, f.answers, amplification*f.requests)
	f.wantNoOtherRecords(mux)
	require.Equal(t, map[string]sourceConns{clientAddr.String(): {20, 20}}, connCounts(f.server))
	for id := range f.open {
		f.server.End(id)
	}
}
