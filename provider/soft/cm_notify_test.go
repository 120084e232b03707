//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// accepted makes a passive ID that the listener's client was answered on.
func (s *party) accepted(l *cm.ID) *cm.ID {
	s.t.Helper()
	passive, _ := s.request(l)
	s.createQP(passive)
	require.NoError(s.t, passive.Accept(nil))
	return passive
}

// notified makes a connection of which the passive side knows before the active
// one has fetched the answer.
func notified(t *testing.T, client, server *party) (active, passive *cm.ID) {
	t.Helper()
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active = client.connecting(cm.TCP, l.LocalAddr(), nil)
	passive = server.accepted(l)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	require.ErrorIs(t, passive.Notify(verbs.AsyncCommEst), verbs.ErrState, "the event is on its way")
	server.want(cm.Established, passive)
	return active, passive
}

func TestNotify(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := notified(t, client, server)
	require.ErrorIs(t, passive.Notify(verbs.AsyncCommEst), verbs.ErrState)

	client.want(cm.Established, active) // which confirms
	server.quiet()
	exchange(t, client, active.QP(), server, passive.QP())
	exchange(t, server, passive.QP(), client, active.QP())
	require.NoError(t, active.Disconnect())
	server.want(cm.Disconnected, passive)
}

// The confirmation may come after the passive side has left again.
func TestNotifyAndLeave(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := notified(t, client, server)
	require.NoError(t, passive.Disconnect())
	client.want(cm.Established, active)
	client.want(cm.Disconnected, active)
	server.quiet()
	require.NoError(t, active.Disconnect())
	require.Zero(t, server.want(cm.Disconnected, passive).Status)
}

// It may leave before the active side has driven its own queue pair.
func TestNotifyAndLeaveWithoutQP(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active, own := client.resolved(cm.TCP, l.LocalAddr()), client.ownQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: own.Num()}))
	passive := server.accepted(l)
	client.want(cm.ConnectResponse, active)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.want(cm.Established, passive)
	require.NoError(t, passive.Disconnect())

	require.Zero(t, client.want(cm.Disconnected, active).Status)
	require.ErrorIs(t, active.Establish(), verbs.ErrState)
	require.NoError(t, active.Disconnect())
	require.Zero(t, server.want(cm.Disconnected, passive).Status)
}

// An active side that gives up has disconnected, for one that was told otherwise.
func TestNotifyAfterClientClosed(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.connecting(cm.TCP, l.LocalAddr(), nil)
	passive := server.accepted(l)
	client.end(active)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.want(cm.Established, passive)
	require.Zero(t, server.want(cm.Disconnected, passive).Status)
}

// That it gave up may be known, and not fetched.
func TestNotifyTooLate(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	var actives, passives [2]*cm.ID
	for i := range actives {
		actives[i] = client.connecting(cm.TCP, l.LocalAddr(), nil)
		passives[i] = server.accepted(l)
	}
	client.end(actives[0])
	client.end(actives[1])
	ev := server.next() // one of two that are there
	require.Equal(t, cm.Rejected, ev.Type)
	late := passives[0]
	if ev.ID == late {
		late = passives[1]
	}
	require.NoError(t, ev.Ack())
	require.ErrorIs(t, late.Notify(verbs.AsyncCommEst), verbs.ErrPeerGone)
	wantRejected(server, late, cm.RejectTimeout, false, nil)
}

// One confirmation is ignored, and not a second one.
func TestNotifyHostile(t *testing.T) {
	server := newParty(t)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	attacker := dialRaw(t, l)
	attacker.send(encode(attacker.request(l)))
	passive := server.accepted(l)
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	server.want(cm.Established, passive)
	attacker.send(encode(&rtuMsg{}))
	server.quiet()
	attacker.send(encode(&rtuMsg{}))
	require.Zero(t, server.want(cm.Disconnected, passive).Status)
	attacker.close()
}
