//go:build linux

package soft

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// completions polls a CQ until n completions have arrived.
func completions(t *testing.T, cq verbs.CQ, n int) []verbs.WC {
	t.Helper()
	got := make([]verbs.WC, n)
	have := 0
	for limit := time.Now().Add(safety); have < n; runtime.Gosched() {
		require.True(t, time.Now().Before(limit), "%d completions of %d", have, n)
		more, err := cq.Poll(got[have:])
		require.NoError(t, err)
		have += more
	}
	return got
}

// exchange sends a message from one queue pair to another, and requires that both sides
// succeed.
func exchange(t *testing.T, from *party, sender verbs.QP, to *party, receiver verbs.QP) {
	t.Helper()
	mr, err := to.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	_, err = receiver.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
	require.NoError(t, err)
	_, err = sender.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("hello")}})
	require.NoError(t, err)
	want := 1
	if from.CQ == to.CQ {
		want = 2
	} else {
		require.NoError(t, completions(t, from.CQ, 1)[0].Err())
	}
	for _, wc := range completions(t, to.CQ, want) {
		require.NoError(t, wc.Err())
	}
	require.Equal(t, "hello", string(mr.Bytes()[:5]))
	require.NoError(t, mr.Close())
}

// An open event channel keeps its device from being closed.
func TestEventChannelKeepsDevice(t *testing.T) {
	s := newParty(t)
	require.ErrorIs(t, s.p.Close(), verbs.ErrBusy)
}

func TestExchange(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := connected(t, client, server)
	exchange(t, client, active.QP(), server, passive.QP())
	exchange(t, server, passive.QP(), client, active.QP())
}

func TestConnectWithoutQP(t *testing.T) {
	for name, early := range map[string]bool{"ready before accept": true, "ready after accept": false} {
		t.Run(name, func(t *testing.T) { connectWithoutQP(t, early) })
	}
}

func connectWithoutQP(t *testing.T, early bool) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.Resolved(cm.TCP, l.LocalAddr()), client.OwnQP()
	cmside.Drive(t, active, own, verbs.StateInit)
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num(), ResponderResources: 1, InitiatorDepth: 2}))

	passive, ev := server.Request(l)
	require.Equal(t, own.Num(), ev.Param.QPNum)
	theirs := server.OwnQP()
	cmside.Drive(t, passive, theirs, verbs.StateInit)
	if early {
		cmside.Drive(t, passive, theirs, verbs.StateRTR, verbs.StateRTS)
	}
	require.NoError(t, passive.Accept(&cm.ConnParam{QPNum: theirs.Num(), ResponderResources: 2, InitiatorDepth: 1, PrivateData: []byte("yes")}))
	if !early {
		cmside.Drive(t, passive, theirs, verbs.StateRTR, verbs.StateRTS)
	}

	ev = client.Want(cm.ConnectResponse, active)
	require.Equal(t, theirs.Num(), ev.Param.QPNum)
	require.Equal(t, "yes", string(ev.Param.PrivateData))
	cmside.Drive(t, active, own, verbs.StateRTR, verbs.StateRTS)
	server.Quiet()
	require.NoError(t, active.Establish())
	client.Quiet() // Establish causes no event on the active side.
	server.Want(cm.Established, passive)

	exchange(t, client, own, server, theirs)
	require.NoError(t, active.Disconnect(nil))
	server.Want(cm.Disconnected, passive)
}

// The active side can reject the connection after the passive side's accept: it answers
// the REP with a REJ.
func TestRejectResponse(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.Resolved(cm.TCP, l.LocalAddr()), client.OwnQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.ConnectResponse, active)
	require.NoError(t, active.Reject([]byte("changed my mind")))
	server.WantRejected(passive, cm.RejectConsumer, true, []byte("changed my mind"))
}

func TestCloseInsteadOfEstablish(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.Resolved(cm.TCP, l.LocalAddr()), client.OwnQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.ConnectResponse, active)
	client.End(active)
	server.WantRejected(passive, cm.RejectConsumer, false, nil)
}

// On the wire path an RTU may be lost, so the first message also establishes the
// connection. This client never calls Establish, which would send the RTU.
func TestDataInsteadOfRTU(t *testing.T) {
	port := freeport.UDP(t)
	client := openParty(t, &Config{Path: PathWire, WirePort: port})
	server := openParty(t, &Config{Path: PathWire, WirePort: port})
	l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
	active, own := client.ID(cm.TCP), client.OwnQP()
	require.NoError(t, active.Bind(netip.MustParseAddrPort("127.9.1.2:0")))
	client.Resolve(active, l.LocalAddr())
	cmside.Drive(t, active, own, verbs.StateInit)
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.ConnectResponse, active)
	cmside.Drive(t, active, own, verbs.StateRTR, verbs.StateRTS)
	server.Quiet()
	exchange(t, client, own, server, passive.QP())
	server.Want(cm.Established, passive)
}
