package duet_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Roles of the two processes of TestKilled.
const (
	envRole = "DUET_ROLE"
	// roleKilled means that the process kills itself while the peer writes to its memory.
	roleKilled = "killed"
	// roleDisconnected means that the peer is killed, and its kernel disconnects for it.
	roleDisconnected = "disconnected"
	// roleTimeout means that the peer is killed, and nothing answers for it.
	roleTimeout = "timeout"
)

// TestKilled is one of two processes. One is killed while connected, and the other must
// see its requests fail.
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

// connectOrAccept makes the connection, according to the side of this process.
func (p *peer) connectOrAccept(params connParams) *conn {
	if p.tcpListener != nil {
		return p.accept(params)
	}
	return p.connect(params)
}

// writeUntilTimeout signals the peer, and writes to its memory until the requests time
// out.
func (c *conn) writeUntilTimeout() {
	wr := c.newWR(verbs.OpSend, source, 0)
	for {
		c.post(wr)
		c.p.waitUntil("a completion", func() bool { return len(c.sends.wcs) > 0 })
		if c.sends.wcs[0].Status != verbs.StatusSuccess {
			break
		}
		c.sends.takeOne()
		wr = c.withRemote(c.newWR(verbs.OpWrite, source, mebibyte), 0)
	}
	c.sends.take(1, verbs.StatusRetryExcErr)
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
}
