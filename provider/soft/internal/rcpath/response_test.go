//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWireReadResponse(t *testing.T) {
	p := newScript(t)
	for i := range 4 * scriptMTU {
		p.e.MR.Bytes()[i] = byte(i/scriptMTU + i)
	}
	p.send(p.read(0, 8, 2*scriptMTU+3), p.read(3, 0, scriptMTU))
	first := p.wantResponse("", wire.ReadResponseFirst, 0)
	require.Equal(t, wire.AckNoCredits, first.AETH().Syndrome())
	require.Equal(t, p.e.MR.Bytes()[8:][:scriptMTU], first.Payload())
	require.Len(t, p.wantResponse("", wire.ReadResponseMiddle, 1).Payload(), scriptMTU)
	last := p.wantResponse("", wire.ReadResponseLast, 2)
	require.Equal(t, p.e.MR.Bytes()[8+2*scriptMTU:][:3], last.Payload())
	require.Equal(t, p.e.MR.Bytes()[:scriptMTU], p.wantResponse("", wire.ReadResponseOnly, 3).Payload())
	p.wantQuiet("a READ gets no other response")
}

func TestWireReadIsRepeated(t *testing.T) {
	p := newScript(t)
	p.send(p.read(0, 0, 4*scriptMTU), p.read(4, 0, scriptMTU))
	p.out = nil
	p.e.MR.Bytes()[2*scriptMTU] = 0xaa
	p.send(p.read(2, 2*scriptMTU, 2*scriptMTU))
	first := p.wantResponse("a response from the middle on, with the present data", wire.ReadResponseFirst, 2)
	require.EqualValues(t, 0xaa, first.Payload()[0])
	p.wantResponse("", wire.ReadResponseLast, 3)
	p.wantQuiet("the other READ is not repeated")
	p.send(p.read(4, 0, scriptMTU), p.read(3, 3*scriptMTU, 5))
	require.Len(t, p.wantResponse("responses in the order of the requests", wire.ReadResponseOnly, 3).Payload(), 5)
	p.wantResponse("", wire.ReadResponseOnly, 4)
	wrongKey := p.read(0, 0, 4*scriptMTU)
	wrongKey.RETH().Set(p.e.MR.Addr(), p.e.MR.RKey()+1, 4*scriptMTU)
	p.send(wrongKey, p.read(1, 0, scriptMTU), p.read(1, scriptMTU, 4*scriptMTU), p.request(wire.FetchAdd, 0, 0))
	p.wantQuiet("READs that are no duplicates are dropped")
	p.send(p.read(5, 0, 1), p.read(6, 0, 1))
	p.out = nil
	p.send(p.read(0, 0, 4*scriptMTU))
	p.wantQuiet("there are two response resources")
	p.send(p.read(6, 0, 1))
	p.wantResponse("", wire.ReadResponseOnly, 6)
}

// When the peer requests a READ again, the responder drops its present response. The new
// response begins with the requested packet.
func TestWireReadRepeatedEarly(t *testing.T) {
	p := newScript(t)
	p.send(p.read(0, 0, (respondBudget+2)*scriptMTU))
	p.out = nil
	p.send(p.read(1, scriptMTU, (respondBudget+1)*scriptMTU))
	p.wantResponse("the response begins at the requested packet", wire.ReadResponseFirst, 1)
	for !p.e.QP.Shard.Demux.Idle() {
		p.e.QP.Shard.Demux.SendDue()
	}
	p.wantCount(respondBudget)
	require.Equal(t, packets.PSNOf(theirBase, respondBudget+1), p.out[respondBudget-1].BTH().PSN())
}

func TestWireReadResponsesArePaced(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 10)
	const n = 2*respondBudget + 1
	p.send(p.read(0, 0, n*scriptMTU), withAckReq(p.request(wire.SendOnly, n, 1)))
	for want := respondBudget; want < n; want += respondBudget {
		p.wantCount(want)
		require.False(t, p.e.QP.Shard.Demux.Idle(), "the rest of the response is due")
		p.e.QP.Shard.Demux.SendDue()
	}
	p.wantCount(n + 1)
	p.out = p.out[n:]
	p.wantSyndrome("the ACK follows the response", wire.AckNoCredits, n)
	require.True(t, p.e.QP.Shard.Demux.Idle())
}

// If a request ends the queue pair, the responses of all earlier requests are sent
// before its NAK.
func TestWireNAKFollowsResponses(t *testing.T) {
	p := newScript(t)
	const n = respondBudget + 1
	p.send(p.read(0, 0, n*scriptMTU), p.request(wire.SendLast, n, 1), withAckReq(p.request(wire.SendOnly, n+1, 1)))
	require.Equal(t, verbs.StateRTS, p.e.QP.State())
	p.out = nil
	p.e.QP.Shard.Demux.SendDue()
	p.wantResponse("", wire.ReadResponseLast, n-1)
	p.wantSyndrome("", wire.NAK(wire.NAKInvalidRequest), n)
	p.e.PollForTimers()
	require.Equal(t, verbs.StateError, p.e.QP.State())
	p.wantQuiet("")
}

func TestWireReadOfMemoryThatIsClosed(t *testing.T) {
	p := newScript(t)
	m, err := p.e.PD.Alloc(&verbs.AllocAttr{Size: 1 << 20, Access: verbs.AccessAll})
	require.NoError(t, err)
	pkt := p.request(wire.ReadRequest, 0, 0)
	pkt.RETH().Set(m.Addr(), m.RKey(), 2*respondBudget*scriptMTU)
	p.send(pkt, p.read(2*respondBudget, 0, 1))
	p.wantCount(respondBudget)
	require.NoError(t, m.Close())
	p.out = nil
	p.e.QP.Shard.Demux.SendDue()
	p.wantSyndrome("a NAK in place of the data", wire.NAK(wire.NAKRemoteAccess), respondBudget)
	p.wantQuiet("no further packet is sent")
	p.wantAsync(verbs.AsyncQPAccessError)
	require.Equal(t, verbs.StateError, p.e.QP.State())
}

// A READ that was answered is requested again, and its memory is closed meanwhile,
// because the peer has received the first response too. That is no error of the peer.
func TestWireRepeatedReadOfClosedMemory(t *testing.T) {
	p := newScript(t)
	m, err := p.e.PD.Alloc(&verbs.AllocAttr{Size: 1 << 20, Access: verbs.AccessAll})
	require.NoError(t, err)
	pkt := p.request(wire.ReadRequest, 0, 0)
	pkt.RETH().Set(m.Addr(), m.RKey(), 2*scriptMTU)
	p.send(pkt)
	p.wantCount(2)
	p.out = nil
	require.NoError(t, m.Close())
	p.send(pkt, p.read(2, 0, 1))
	p.wantResponse("only the next READ is answered", wire.ReadResponseOnly, 2)
	p.wantQuiet("")
	require.Equal(t, verbs.StateRTS, p.e.QP.State())
}
