//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// accepted accepts the next request to a listener, and returns the passive ID.
func (s *party) accepted(l *cm.ID) *cm.ID {
	s.T.Helper()
	passive, _ := s.Request(l)
	s.CreateQP(passive)
	require.NoError(s.T, passive.Accept(nil))
	return passive
}

// notified makes a connection and calls Notify on the passive side. The active side has
// not yet fetched the event Established.
func notified(t *testing.T, client, server *party) (active, passive *cm.ID) {
	t.Helper()
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active = client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive = server.accepted(l)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	require.ErrorIs(t, passive.Notify(verbs.AsyncCommEst), verbs.ErrState, "the event is queued")
	server.Want(cm.Established, passive)
	return active, passive
}

func TestNotify(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := notified(t, client, server)
	require.ErrorIs(t, passive.Notify(verbs.AsyncCommEst), verbs.ErrState)

	// Want makes the client's channel read the REP and send the RTU.
	client.Want(cm.Established, active)
	server.Quiet()
	cmtest.Exchange(t, client.Party, active.QP(), server.Party, passive.QP())
	cmtest.Exchange(t, server.Party, passive.QP(), client.Party, active.QP())
	require.NoError(t, active.Disconnect(nil))
	server.Want(cm.Disconnected, passive)
}

// The passive side calls Notify and then Disconnect. An RTU that arrives later is
// ignored.
func TestNotifyAndLeave(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := notified(t, client, server)
	require.NoError(t, passive.Disconnect(nil))
	client.Want(cm.Established, active)
	client.Want(cm.Disconnected, active)
	server.Quiet()
	require.NoError(t, active.Disconnect(nil))
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
}

// If the passive side calls Notify and Disconnect before the active side calls Establish,
// Establish fails.
func TestNotifyAndLeaveWithoutQP(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.Resolved(cm.TCP, l.LocalAddr()), client.OwnQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive := server.accepted(l)
	client.Want(cm.ConnectResponse, active)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.Want(cm.Established, passive)
	require.NoError(t, passive.Disconnect(nil))

	require.Zero(t, client.Want(cm.Disconnected, active).Status)
	require.ErrorIs(t, active.Establish(), verbs.ErrState)
	require.NoError(t, active.Disconnect(nil))
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
}

// If the active side closes its ID without sending an RTU, the passive side can still
// call Notify. It gets Established and then Disconnected.
func TestNotifyAfterClientClosed(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive := server.accepted(l)
	client.End(active)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.Want(cm.Established, passive)
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
}

// Notify fails after a REJ has arrived, even if the application has not fetched the event
// Rejected.
func TestNotifyTooLate(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	var actives, passives [2]*cm.ID
	for i := range actives {
		actives[i] = client.Connecting(cm.TCP, l.LocalAddr(), nil)
		passives[i] = server.accepted(l)
	}
	client.End(actives[0])
	client.End(actives[1])
	// One of the two Rejected events is fetched. The other one stays in the queue.
	ev := server.Next()
	require.Equal(t, cm.Rejected, ev.Type)
	late := passives[0]
	if ev.ID == late {
		late = passives[1]
	}
	require.NoError(t, ev.Ack())
	require.ErrorIs(t, late.Notify(verbs.AsyncCommEst), verbs.ErrPeerGone)
	server.WantRejected(late, cm.RejectTimeout, false, nil)
}

// The first RTU after Notify is ignored. A second RTU violates the protocol and ends the
// connection.
func TestNotifyHostile(t *testing.T) {
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	attacker := dialRaw(t, l)
	attacker.send(encode(attacker.request(l)))
	passive := server.accepted(l)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.Want(cm.Established, passive)
	attacker.send(encode(&connmgr.RTU{}))
	server.Quiet()
	attacker.send(encode(&connmgr.RTU{}))
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
	attacker.close()
}
