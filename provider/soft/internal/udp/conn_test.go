//go:build linux

package udp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// When a Conn closes a socket, it keeps the memory of the socket for its next socket.
func TestSpareMemory(t *testing.T) {
	c := newConnRig(t)
	for n := range 3 {
		sent, received := c.u.send.batch, c.u.recv.batch
		for range sendBatch {
			p := wire.Build(c.conn.Buffer(&c.route, wire.MaxPacket), wire.SendOnly, 8)
			// The number belongs to a queue pair of this shard, whose slot is 0.
			p.BTH().SetDestQP(0x124)
			p.BTH().SetPSN(psn.New(1))
			c.conn.Push(&c.route, p)
		}
		c.conn.Flush()
		c.drive()
		require.Equal(t, (n+1)*sendBatch, c.got[0x124])
		require.EqualValues(t, (n+1)*sendBatch, c.counted(counters.SentPkts))
		require.NotNil(t, sent.buffers[sendBatch-1])

		c.conn.Close(&c.route)
		require.False(t, c.conn.InUse())
		require.Nil(t, sent.buffers[maxSpareBuffers], "most buffers are freed")
		require.Nil(t, received.buffers[maxSpareBuffers])
		c.open()
		require.Same(t, sent, c.u.send.batch)
		require.Same(t, received, c.u.recv.batch)
		require.Nil(t, c.conn.spareSender.batch, "the memory has one user")
	}
}
