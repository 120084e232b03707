//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A packet that invalidates a window is executed once, even if it arrives twice.
func TestWireSendInvReceived(t *testing.T) {
	p := newScript(t)
	w := qptest.NewWindow(p.e)
	p.e.Post(w.Bind(1))
	p.wantDone("bind", verbs.StatusSuccess, 1)
	p.wantQuiet("a bind sends nothing")
	p.e.Recv(2, 0, 2*scriptMTU)
	last := withAckReq(p.request(wire.SendLastInv, 1, 10))
	last.IETH().Set(w.RKey())
	p.send(p.request(wire.SendFirst, 0, scriptMTU), last)
	p.wantSyndrome("", wire.AckNoCredits, 1)
	require.Equal(t, []verbs.WC{{ID: 2, Opcode: verbs.WCRecv, Flags: verbs.WCWithInv, Imm: w.RKey(), ByteLen: scriptMTU + 10, QPN: p.e.QP.Num()}},
		p.e.DrainCQ())
	p.send(last)
	p.wantSyndrome("duplicate", wire.AckNoCredits, 1)
	require.Equal(t, verbs.StateRTS, p.e.QP.State())
	read := p.request(wire.ReadRequest, 2, 0)
	read.RETH().Set(w.Mr.Addr(), w.RKey(), 8)
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
	w := qptest.NewWindow(p.e)
	p.post(1, verbs.OpSend, 1)
	p.e.Post(w.Bind(2))
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
	w := qptest.NewWindow(p.e)
	bind := w.Bind(2)
	bind.Bind.Length = qptest.EndSize + 1
	p.post(1, verbs.OpSend, 1)
	p.e.Post(bind)
	p.post(3, verbs.OpSend, 1)
	p.wantRequest("", wire.SendOnly, 0)
	p.wantQuiet("nothing is sent after the bind")
	p.send(p.ack(0))
	got := p.e.DrainCQ()
	require.Equal(t, []verbs.Status{verbs.StatusSuccess, verbs.StatusMWBindErr, verbs.StatusWRFlushErr},
		[]verbs.Status{got[0].Status, got[1].Status, got[2].Status})
}
