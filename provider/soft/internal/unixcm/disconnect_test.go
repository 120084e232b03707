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

func TestDisconnect(t *testing.T) {
	for name, leave := range map[string]func(active, passive *cm.ID) (first, second *cm.ID){
		"by the active side":  func(a, p *cm.ID) (first, second *cm.ID) { return a, p },
		"by the passive side": func(a, p *cm.ID) (first, second *cm.ID) { return p, a },
	} {
		t.Run(name, func(t *testing.T) {
			s := newParty(t)
			first, second := leave(connected(t, s, s))
			require.NoError(t, first.Disconnect(nil))
			require.Equal(t, verbs.StateError, first.QP().State(), "the queue pair is flushed at once")

			require.NoError(t, s.Want(cm.Disconnected, second).Err)
			s.Quiet() // The side that has sent the DREQ gets no event before the DREP.
			require.NoError(t, second.Disconnect(nil))
			require.Equal(t, verbs.StateError, second.QP().State())
			s.Want(cm.TimewaitExit, second)

			require.NoError(t, s.Want(cm.Disconnected, first).Err)
			s.Want(cm.TimewaitExit, first)
			s.Quiet()
		})
	}
}

// The event Disconnected does not change the state of the queue pair
// (rdma_disconnect(3)).
func TestDisconnectedLeavesQP(t *testing.T) {
	s := newParty(t)
	active, passive := connected(t, s, s)
	require.NoError(t, active.Disconnect(nil))
	s.Want(cm.Disconnected, passive)
	attr, err := passive.QP().Query()
	require.NoError(t, err)
	require.Equal(t, verbs.StateRTS, attr.State)
}

func TestDisconnectByBoth(t *testing.T) {
	s := newParty(t)
	active, passive := connected(t, s, s)
	require.NoError(t, active.Disconnect(nil))
	require.NoError(t, passive.Disconnect(nil))
	seen := map[*cm.ID][]cm.EventType{}
	for range 4 {
		ev := s.Next()
		require.Zero(t, ev.Status)
		seen[ev.ID] = append(seen[ev.ID], ev.Type)
		require.NoError(t, ev.Ack())
	}
	each := []cm.EventType{cm.Disconnected, cm.TimewaitExit}
	require.Equal(t, map[*cm.ID][]cm.EventType{active: each, passive: each}, seen)
	s.Quiet()
}

// If an established ID is destroyed, it sends a DREQ.
func TestDestroyEstablished(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := connected(t, client, server)
	client.End(active)
	ev := server.Want(cm.Disconnected, passive)
	require.Zero(t, ev.Status)
	require.NoError(t, passive.Disconnect(nil))
	server.Want(cm.TimewaitExit, passive)
}

func TestDestroyAnswersDisconnect(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := connected(t, client, server)
	require.NoError(t, active.Disconnect(nil))
	server.Want(cm.Disconnected, passive)
	server.End(passive)
	require.Zero(t, client.Want(cm.Disconnected, active).Status)
}

// A DREQ that the peer does not answer times out.
func TestDisconnectUnanswered(t *testing.T) {
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(client.TC)
	active, passive := connected(t, client, server)
	require.NoError(t, active.Disconnect(nil))
	server.Want(cm.Disconnected, passive)
	clock.Advance(connmgr.RequestTimeout - 1)
	client.Quiet()
	clock.Advance(1)
	ev := client.Want(cm.Disconnected, active)
	require.Equal(t, connmgr.StatusTimedOut, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
}

// If the passive side is destroyed before the RTU arrives, it sends a REJ. For an active
// side that has sent a DREQ, this REJ has the same effect as a DREP.
func TestDisconnectCrossesReject(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)
	require.NoError(t, active.Disconnect(nil))
	server.End(passive)
	require.Zero(t, client.Want(cm.Disconnected, active).Status)
	client.Want(cm.TimewaitExit, active)
}

// If the DREQ arrives before the RTU, the passive side gets Disconnected without
// Established.
func TestDisconnectedWithoutEstablished(t *testing.T) {
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	client := dialRaw(t, l)
	client.send(encode(client.request(l)))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.send(encode(&connmgr.DREQ{}))
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
	require.NoError(t, passive.Disconnect(nil))
	server.Want(cm.TimewaitExit, passive)
	client.close()
}

// If the passive side has called Disconnect before the RTU, it answers a DREQ at once.
func TestDREQAfterEarlyDisconnect(t *testing.T) {
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	client := dialRaw(t, l)
	client.send(encode(client.request(l)))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	require.NoError(t, passive.Disconnect(nil))
	client.send(encode(&connmgr.DREQ{}))
	require.Zero(t, server.Want(cm.Disconnected, passive).Status)
	// The server sends the DREP before it gets the event TimewaitExit.
	server.Want(cm.TimewaitExit, passive)
	client.close()
}

// If the passive side is destroyed before the RTU arrives, the active side gets
// Disconnected.
func TestDestroyAccepted(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)
	server.End(passive)
	require.Zero(t, client.Want(cm.Disconnected, active).Status)
}

// A disconnectedParty is a server that has received a DREQ, and whose queue pair waits
// for notices of the client. Only advance() changes the time of the server.
type disconnectedParty struct {
	client, server  *party
	active, passive *cm.ID
	clock           *cmtest.Clock
}

func newDisconnectedParty(t *testing.T) *disconnectedParty {
	t.Helper()
	p := &disconnectedParty{client: newParty(t), server: newParty(t)}
	p.clock = cmtest.UseClock(p.server.TC)
	p.active, p.passive = connected(t, p.client, p.server)
	p.server.Dev.SetAwaitsNotices(true)
	require.NoError(t, p.active.Disconnect(nil))
	p.server.Quiet()
	return p
}

// The application gets Disconnected only after all notices that the peer has sent before
// its DREQ have arrived.
func TestDREQAwaitsNotices(t *testing.T) {
	p := newDisconnectedParty(t)
	p.clock.Advance(connmgr.NoticeInterval)
	p.server.Quiet()
	p.server.Dev.SetAwaitsNotices(false)
	p.clock.Advance(connmgr.NoticeInterval - 1)
	p.server.Quiet()
	p.clock.Advance(1)
	require.NoError(t, p.server.Want(cm.Disconnected, p.passive).Err)
	require.Equal(t, verbs.StateRTS, p.passive.QP().State())
	require.NoError(t, p.passive.Disconnect(nil))
	p.server.Want(cm.TimewaitExit, p.passive)
	require.Zero(t, p.client.Want(cm.Disconnected, p.active).Status)
}

// If the notices do not arrive, the application gets Disconnected after NoticeLimit.
func TestDREQAwaitsNoticesInVain(t *testing.T) {
	p := newDisconnectedParty(t)
	for passed := connmgr.NoticeInterval; passed < connmgr.NoticeLimit; passed += connmgr.NoticeInterval {
		p.clock.Advance(connmgr.NoticeInterval)
		p.server.Quiet()
	}
	p.clock.Advance(connmgr.NoticeInterval)
	require.NoError(t, p.server.Want(cm.Disconnected, p.passive).Err)
}

// Disconnect answers the DREQ at once, even if the ID still waits for notices.
func TestDisconnectAwaitingNotices(t *testing.T) {
	p := newDisconnectedParty(t)
	require.NoError(t, p.passive.Disconnect(nil))
	require.Zero(t, p.server.Want(cm.Disconnected, p.passive).Status)
	p.server.Want(cm.TimewaitExit, p.passive)
	require.Zero(t, p.client.Want(cm.Disconnected, p.active).Status)
	p.clock.Advance(connmgr.NoticeLimit)
	p.server.Quiet()
}

// An ID that is destroyed while it waits for notices answers the DREQ of its peer.
func TestDestroyAwaitingNotices(t *testing.T) {
	p := newDisconnectedParty(t)
	p.server.End(p.passive)
	require.Zero(t, p.client.Want(cm.Disconnected, p.active).Status)
	p.clock.Advance(connmgr.NoticeLimit)
	p.server.Quiet()
}

// The server waits for notices even if the client has destroyed its ID after sending the
// DREQ.
func TestPeerDestroysIDBeforeNotices(t *testing.T) {
	p := newDisconnectedParty(t)
	p.client.End(p.active)
	p.clock.Advance(connmgr.NoticeInterval)
	p.server.Quiet()
	p.server.Dev.SetAwaitsNotices(false)
	p.clock.Advance(connmgr.NoticeInterval)
	require.NoError(t, p.server.Want(cm.Disconnected, p.passive).Err)
}

// An ID that migrates while it waits for notices takes its timer to the other channel.
func TestMigrateAwaitingNotices(t *testing.T) {
	p := newDisconnectedParty(t)
	other := newSibling(p.server)
	other.TC.Probe().SetClock(p.server.TC.Probe().Clock())
	require.NoError(t, p.passive.Migrate(other.Channel))
	p.server.Dev.SetAwaitsNotices(false)
	p.clock.Advance(connmgr.NoticeInterval)
	require.NoError(t, other.Want(cm.Disconnected, p.passive).Err)
	p.server.Quiet()
	other.End(p.passive)
}
