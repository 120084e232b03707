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
	require.NoError(t, p.active.Disconnect())
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
	require.NoError(t, p.passive.Disconnect())
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
	require.NoError(t, p.passive.Disconnect())
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
