package duet_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// What becomes of the two players of TestKilled.
const (
	envFate = "DUET_FATE"
	// dies: the process is killed in the middle of a connection, while the other
	// writes to its memory.
	dies = "dies"
	// mourns: the other one dies, and there is a kernel to say so.
	mourns = "mourns"
	// wonders: nobody says so, but there are no answers.
	wonders = "wonders"
)

// TestKilled is one of two players, of which one dies.
func TestKilled(t *testing.T) {
	p := ownStage(t).enter(t)
	m := manners{letters, fewRetries, verbs.RNRRetryForever, ackTimeout}
	c := p.meetPeer(m)
	switch fate := os.Getenv(envFate); fate {
	case dies:
		c.hear()
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Kill())
		select {}
	case mourns, wonders:
		c.outlive()
		if fate == mourns {
			p.await(c.id, cm.Disconnected)
		}
		p.Empty(p.seen)
	default:
		require.Fail(t, "no such fate", fate)
	}
}

// meetPeer makes the connection, from whichever side.
func (p *player) meetPeer(m manners) *conn {
	if p.connections != nil {
		return p.accept(m)
	}
	return p.connect(m)
}

// outlive gives the peer its word, and writes until nobody answers.
func (c *conn) outlive() {
	wr := c.request(verbs.OpSend, source, 0)
	for {
		c.post(wr)
		c.p.until("an answer, or that there is none", func() bool { return len(c.sends.wcs) > 0 })
		if c.sends.wcs[0].Status != verbs.StatusSuccess {
			break
		}
		c.sends.one()
		wr = c.to(c.request(verbs.OpWrite, source, mebibyte), 0)
	}
	c.sends.take(1, verbs.StatusRetryExcErr)
	c.recvs.take(letters, verbs.StatusWRFlushErr)
}
