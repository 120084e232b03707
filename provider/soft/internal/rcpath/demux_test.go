//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A flushCounter is a packets.Conn that counts calls of Flush.
type flushCounter struct {
	packets.Conn
	flushes int
}

func (f *flushCounter) Flush() { f.flushes++ }

// The packets of the first post are sent at once. Packets of later posts are sent with
// the next poll, or before the owner sleeps.
func TestPostsShareAFlush(t *testing.T) {
	p := newScript(t)
	conn := &flushCounter{Conn: p}
	p.e.QP.Shard.Demux.Conn = conn
	want := func(flushes int) {
		t.Helper()
		require.Equal(t, flushes, conn.flushes)
	}
	post := func() { p.e.Post(verbs.SendWR{Opcode: verbs.OpSend}) }
	post()
	want(1)
	post()
	post()
	want(1)
	p.e.PollN(1)
	want(2)
	p.e.PollN(1)
	want(2)
	post()
	want(3)
	post()
	want(3)
	require.True(t, p.e.QP.Shard.Demux.SendAll())
	want(4)
}

// A connection stores from which of the peer's sockets the last packet came. After a
// packet loss, the connection sets the stored value to 0, which means unknown.
func TestPeerSocket(t *testing.T) {
	p := newScript(t)
	p.e.Post(verbs.SendWR{Opcode: verbs.OpSend})
	p.e.Post(verbs.SendWR{Opcode: verbs.OpSend})
	ack := p.packet(wire.Acknowledge, ourBase, 0)
	ack.AETH().Set(wire.Ack(0), 1)
	from := &udp.Header{From: scriptAddr, To: ownAddr, Socket: 7}
	p.e.QP.Shard.Demux.Receive(ack, from)
	require.EqualValues(t, 1, p.conn.Acked())
	require.EqualValues(t, 7, p.conn.to.PeerSocket)
	p.conn.onLoss()
	require.Zero(t, p.conn.to.PeerSocket)
	p.e.QP.Shard.Demux.Receive(ack, from)
	require.EqualValues(t, 7, p.conn.to.PeerSocket)
	p.now += time.Second
	p.conn.onAckTimeout()
	require.Zero(t, p.conn.to.PeerSocket)
}
