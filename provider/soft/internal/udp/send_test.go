//go:build linux

package udp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// Packets for several queue pairs are sent as one message if the same socket receives
// them.
func TestMessageForSeveralQueuePairs(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	type packet struct {
		qpn        uint32
		peerSocket uint16
		size       int
	}
	for _, c := range []struct {
		packets []packet
		want    int // number of messages in which the packets are sent
	}{
		{[]packet{{1, 0, 64}, {1, 0, 64}}, 1},
		{[]packet{{1, 0, 64}, {2, 0, 64}}, 2},
		{[]packet{{1, 7, 64}, {2, 7, 64}, {3, 7, 64}}, 1},
		{[]packet{{1, 7, 64}, {2, 7, 32}, {3, 7, 64}}, 2},
		{[]packet{{1, 7, 64}, {2, 8, 64}}, 2},
		{[]packet{{1, 7, 64}, {2, 0, 64}, {2, 7, 64}}, 2},
	} {
		for _, p := range c.packets {
			b := wire.Build(r.send.buffer(), wire.SendOnly, p.size)
			b.BTH().SetDestQP(p.qpn)
			r.send.put(b, r.to, p.peerSocket)
		}
		require.Equal(t, c.want, r.send.gather(&r.send.shared, 0), "%+v", c.packets)
		r.flush()
		require.Len(t, r.received().sizes, len(c.packets))
	}
	require.Zero(t, r.count(counters.RxICRCEncapsulated))
}

// Header.Socket is the port of the connected socket that has sent the packet.
func TestHeaderSocket(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	sockets := func() (got socketNumbers) {
		r.queue(64)
		r.flush()
		require.Equal(t, 1, r.recv.receive(&got))
		return got
	}
	require.Equal(t, socketNumbers{0}, sockets())
	require.NoError(t, r.to.connect())
	require.Equal(t, socketNumbers{r.to.socket.local.Port()}, sockets())
}

// socketNumbers is a Sink that keeps Header.Socket of each packet.
type socketNumbers []uint16

func (s *socketNumbers) Receive(_ wire.Packet, from *Header) bool {
	*s = append(*s, from.Socket)
	return true
}
