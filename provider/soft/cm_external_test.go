//go:build linux

package soft

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// completions waits for n completions on the party's CQ.
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

// exchange sends a message from one queue pair to the other.
func exchange(t *testing.T, from *party, sender verbs.QP, to *party, receiver verbs.QP) {
	t.Helper()
	mr, err := to.pd.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	_, err = receiver.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
	require.NoError(t, err)
	_, err = sender.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("hello")}})
	require.NoError(t, err)
	want := 1
	if from.cq == to.cq {
		want = 2
	} else {
		require.NoError(t, completions(t, from.cq, 1)[0].Err())
	}
	for _, wc := range completions(t, to.cq, want) {
		require.NoError(t, wc.Err())
	}
	require.Equal(t, "hello", string(mr.Bytes()[:5]))
	require.NoError(t, mr.Close())
}

func TestExchange(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := connected(t, client, server)
	exchange(t, client, active.QP(), server, passive.QP())
	exchange(t, server, passive.QP(), client, active.QP())
}

// ownQP makes a queue pair without an ID.
func (s *party) ownQP() verbs.QP {
	s.t.Helper()
	qp, err := s.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.QPTypeRC, SendCQ: s.cq, RecvCQ: s.cq,
		Caps: verbs.QPCaps{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			require.NoError(s.t, qp.Close())
		}
	})
	return qp
}

func drive(t *testing.T, id *cm.ID, qp verbs.QP, states ...verbs.QPState) {
	t.Helper()
	for _, state := range states {
		attr, mask, err := id.InitQPAttr(state)
		require.NoError(t, err)
		require.NoError(t, qp.Modify(&attr, mask), "to %v", state)
	}
}

func TestConnectWithoutQP(t *testing.T) {
	for name, early := range map[string]bool{"ready before accept": true, "ready after accept": false} {
		t.Run(name, func(t *testing.T) { connectWithoutQP(t, early) })
	}
}

func connectWithoutQP(t *testing.T, early bool) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.resolved(cm.TCP, l.LocalAddr()), client.ownQP()
	drive(t, active, own, verbs.StateInit)
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num(), ResponderResources: 1, InitiatorDepth: 2}))

	passive, ev := server.request(l)
	require.Equal(t, own.Num(), ev.Param.QPNum)
	theirs := server.ownQP()
	drive(t, passive, theirs, verbs.StateInit)
	if early {
		drive(t, passive, theirs, verbs.StateRTR, verbs.StateRTS)
	}
	require.NoError(t, passive.Accept(&cm.ConnParam{QPNum: theirs.Num(), ResponderResources: 2, InitiatorDepth: 1, PrivateData: []byte("yes")}))
	if !early {
		drive(t, passive, theirs, verbs.StateRTR, verbs.StateRTS)
	}

	ev = client.want(cm.ConnectResponse, active)
	require.Equal(t, theirs.Num(), ev.Param.QPNum)
	require.Equal(t, "yes", string(ev.Param.PrivateData))
	drive(t, active, own, verbs.StateRTR, verbs.StateRTS)
	server.quiet()
	require.NoError(t, active.Establish())
	client.quiet() // The active side gets no event for its own call of Establish.
	server.want(cm.Established, passive)

	exchange(t, client, own, server, theirs)
	require.NoError(t, active.Disconnect())
	server.want(cm.Disconnected, passive)
}

// The active side can refuse the REP.
func TestRejectResponse(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.resolved(cm.TCP, l.LocalAddr()), client.ownQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive, _ := server.request(l)
	server.createQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.want(cm.ConnectResponse, active)
	require.NoError(t, active.Reject([]byte("changed my mind")))
	wantRejected(server, passive, cm.RejectConsumer, true, []byte("changed my mind"))
}

func TestCloseInsteadOfEstablish(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.resolved(cm.TCP, l.LocalAddr()), client.ownQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive, _ := server.request(l)
	server.createQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.want(cm.ConnectResponse, active)
	client.end(active)
	wantRejected(server, passive, cm.RejectConsumer, false, nil)
}
