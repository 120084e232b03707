package pairtest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Roles of the two processes of TestKilled.
const (
	envRole = "PAIR_ROLE"
	// This process kills itself while the peer sends it WRITEs.
	roleKilled = "killed"
	// The peer is killed, but the kernel owns its device and disconnects.
	roleDisconnected = "disconnected"
	// The peer is killed together with its device. Nothing answers any more, so requests
	// time out.
	roleTimeout = "timeout"
)

// TestKilled checks two connected processes. One kills itself, and then the requests of
// the other must fail.
func TestKilled(t *testing.T) {
	p := fixtureFromEnv(t).newPeer(t)
	params := connParams{recvBuffers, fewRetries, verbs.RNRRetryForever, ackTimeout}
	c := p.connectOrAccept(params)
	switch role := os.Getenv(envRole); role {
	case roleKilled:
		c.waitForSignal()
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Kill())
		select {}
	case roleDisconnected, roleTimeout:
		c.writeUntilTimeout()
		if role == roleDisconnected {
			p.await(c.id, cm.Disconnected)
		}
		p.Empty(p.events)
	default:
		require.Fail(t, "no such role", role)
	}
}

// connectOrAccept connects on the active side and accepts on the passive side.
func (p *peer) connectOrAccept(params connParams) *conn {
	if p.tcpListener != nil {
		return p.accept(params)
	}
	return p.connect(params)
}

// writeUntilTimeout signals the peer and writes to its memory until a request times out.
func (c *conn) writeUntilTimeout() {
	wr := c.newWR(verbs.OpSend, sourceArea, 0)
	for {
		c.post(wr)
		c.p.waitUntil("a completion", func() bool { return len(c.sends.wcs) > 0 })
		if c.sends.wcs[0].Status != verbs.StatusSuccess {
			break
		}
		c.sends.takeOne()
		wr = c.withRemote(c.newWR(verbs.OpWrite, sourceArea, mebibyte), 0)
	}
	c.sends.take(1, verbs.StatusRetryExcErr)
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
}
