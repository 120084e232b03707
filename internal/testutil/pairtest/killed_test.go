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
	// The process with this role kills itself while the peer writes to the memory of
	// this process.
	roleKilled = "killed"
	// The peer of this process is killed, and the peer's device belongs to the kernel.
	// The kernel disconnects, so this process gets a Disconnected event.
	roleDisconnected = "disconnected"
	// The peer of this process is killed, and the peer's device ends with the peer.
	// After that, nothing answers the packets of this process, so its requests fail with
	// a timeout.
	roleTimeout = "timeout"
)

// TestKilled runs in two processes with a connection between them. One process kills
// itself, and the requests of the other process must fail.
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

// connectOrAccept connects if this process is the active side, and accepts a connection
// if it is the passive side.
func (p *peer) connectOrAccept(params connParams) *conn {
	if p.tcpListener != nil {
		return p.accept(params)
	}
	return p.connect(params)
}

// writeUntilTimeout sends a signal to the peer, and then writes to the peer's memory
// until a request fails with a timeout.
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
