//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A testWindow is a memory window and the region that it is bound to.
type testWindow struct {
	verbs.MW
	mr verbs.MR
}

// newWindow returns a window that is not bound yet, and a region that peers on this host
// can map.
func (e *end) newWindow() *testWindow {
	e.t.Helper()
	mr, err := e.pd.Alloc(&verbs.AllocAttr{Size: endSize, Access: verbs.AccessAll | verbs.AccessMWBind})
	require.NoError(e.t, err)
	w, err := e.pd.AllocMW()
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		require.NoError(e.t, w.Close())
		require.NoError(e.t, mr.Close())
	})
	return &testWindow{w, mr}
}

// bind returns a signaled request that binds the window to the first 4096 bytes of the
// region.
func (w *testWindow) bind(id uint64) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, RKey: verbs.IncRKey(w.RKey()),
		Bind: &verbs.MWBind{MW: w.MW, MR: w.mr, Addr: w.mr.Addr(), Length: 4096, Access: verbs.AccessRemoteRead}}
}

// A peer that knows the key of a region maps the region. It maps nothing for the key of
// a window, because the mapping would contain the whole region.
func TestWindowIsNotMapped(t *testing.T) {
	a, b := newPair(t, openDevice(t, directConfig()), verbs.ProgressManual)
	w := b.newWindow()
	b.post(w.bind(1))
	require.Equal(t, verbs.WC{ID: 1, Opcode: verbs.WCBindMW, QPN: b.qp.num}, b.wait(1, a)[0])
	read := a.remote(verbs.OpRead, b, 8)
	read.RemoteAddr, read.RKey = w.mr.Addr(), w.RKey()
	for range 5 {
		a.requireSent(b, read, verbs.StatusSuccess)
	}
	require.Equal(t, regionRefused, a.qp.path.(*shmConn).p.regions.find(w.RKey()).state)

	read.RKey = w.mr.RKey()
	a.requireSent(b, read, verbs.StatusSuccess)
	a.pollN(1)
	b.pollN(1)
	a.requireDirect(read)
	read.RKey = w.RKey()
	a.requireSent(b, read, verbs.StatusSuccess)
	read.RemoteAddr += 4096
	a.requireSent(b, read, verbs.StatusRemAccessErr)
}

// A packet that invalidates a window is executed once, even if it arrives twice.
func TestWireSendInvReceived(t *testing.T) {
	p := newScript(t)
	w := p.e.newWindow()
	p.e.post(w.bind(1))
	p.wantDone("bind", verbs.StatusSuccess, 1)
	p.wantQuiet("a bind sends nothing")
	p.e.recv(2, 0, 2*scriptMTU)
	last := withAckReq(p.request(wire.SendLastInv, 1, 10))
	last.IETH().Set(w.RKey())
	p.send(p.request(wire.SendFirst, 0, scriptMTU), last)
	p.wantSyndrome("", wire.AckNoCredits, 1)
	require.Equal(t, []verbs.WC{{ID: 2, Opcode: verbs.WCRecv, Flags: verbs.WCWithInv, Imm: w.RKey(), ByteLen: scriptMTU + 10, QPN: p.e.qp.num}},
		p.e.drainCQ())
	p.send(last)
	p.wantSyndrome("duplicate", wire.AckNoCredits, 1)
	require.Equal(t, verbs.StateRTS, p.e.qp.State())
	read := p.request(wire.ReadRequest, 2, 0)
	read.RETH().Set(w.mr.Addr(), w.RKey(), 8)
	p.send(read)
	p.wantSyndrome("the window is free", wire.NAK(wire.NAKRemoteAccess), 2)
}

func TestWireSendInvSent(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSendInv, 2*scriptMTU+1)
	p.wantRequest("", wire.SendFirst, 0)
	p.wantRequest("", wire.SendMiddle, 1)
	require.EqualValues(t, 7, p.wantRequest("", wire.SendLastInv, 2).IETH().RKey())
	p.post(2, verbs.OpSendInv, 1)
	require.EqualValues(t, 7, p.wantRequest("", wire.SendOnlyInv, 3).IETH().RKey())
	p.send(p.ack(3))
	p.wantDone("", verbs.StatusSuccess, 1, 2)
}

// When the requests before and after a bind are sent again, the bind is not executed
// again.
func TestWireBindIsNotRepeated(t *testing.T) {
	p := newScript(t)
	w := p.e.newWindow()
	p.post(1, verbs.OpSend, 1)
	p.e.post(w.bind(2))
	p.post(3, verbs.OpSend, 1)
	for range 2 {
		p.wantRequest("", wire.SendOnly, 0)
		p.wantRequest("", wire.SendOnly, 1)
		p.send(p.nak(wire.NAKSequence, 0))
	}
	p.wantDone("the bind completes in order", verbs.StatusSuccess)
	p.send(p.ack(0))
	p.wantDone("", verbs.StatusSuccess, 1, 2)
	p.send(p.ack(1))
	p.wantDone("", verbs.StatusSuccess, 3)
}

// A bind that fails moves the queue pair to the error state, after the requests before
// it have completed.
func TestWireBindFails(t *testing.T) {
	p := newScript(t)
	w := p.e.newWindow()
	bind := w.bind(2)
	bind.Bind.Length = endSize + 1
	p.post(1, verbs.OpSend, 1)
	p.e.post(bind)
	p.post(3, verbs.OpSend, 1)
	p.wantRequest("", wire.SendOnly, 0)
	p.wantQuiet("nothing is sent after the bind")
	p.send(p.ack(0))
	got := p.e.drainCQ()
	require.Equal(t, []verbs.Status{verbs.StatusSuccess, verbs.StatusMWBindErr, verbs.StatusWRFlushErr},
		[]verbs.Status{got[0].Status, got[1].Status, got[2].Status})
}

// RESET unbinds the windows of a queue pair, so that its next peer can not use them.
func TestResetUnbindsWindows(t *testing.T) {
	a, _ := newPair(t, openDevice(t, directConfig()), verbs.ProgressManual)
	w := a.newWindow()
	a.post(w.bind(1))
	require.Len(t, a.pollN(1), 1)
	require.ErrorIs(t, w.mr.Close(), verbs.ErrBusy)
	require.NoError(t, a.qp.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.NoError(t, w.mr.Close())
}
