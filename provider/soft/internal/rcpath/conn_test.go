//go:build linux

package rcpath

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// quietNet is a network that loses no packets.
var quietNet = netsim.Config{Delay: 10 * time.Microsecond}

func TestWireEverySizeAndOperation(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.NewEnd(), s.NewEnd()
	s.Join(a, b, func(attr *verbs.QPAttr) {
		attr.PathMTU = verbs.MTU1024
		// The PSNs wrap during the test.
		attr.RQPSN, attr.SQPSN = 0xffffe0, 0xffffe0
	})
	for _, size := range []int{0, 1, 3, 1023, 1024, 1025, 31 * 1024, 32 * 1024, 33*1024 + 1, 128 * 1024, 129 * 1024, 1 << 20} {
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead} {
			src, dst := a.MR.Bytes(), b.MR.Bytes()
			if op == verbs.OpRead {
				src, dst = dst, src
			}
			clear(dst[:size+1])
			for i := range size {
				src[i] = byte(i*7 + size + int(op))
			}
			b.Recv(5, 0, qptest.EndSize)
			a.Post(verbs.SendWR{ID: 1, Opcode: op, Flags: verbs.SendSignaled, Imm: 77,
				SGEs:       []verbs.SGE{verbs.SGEOf(a.MR, 0, size)},
				RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
			s.Settle()
			sent, got := a.DrainCQ(), b.DrainCQ()
			require.Len(t, sent, 1, "%v of %d bytes", op, size)
			require.Equal(t, verbs.StatusSuccess, sent[0].Status)
			require.True(t, bytes.Equal(src[:size], dst[:size]), "%v of %d bytes", op, size)
			require.Zero(t, dst[size])
			if op == verbs.OpWrite || op == verbs.OpRead {
				require.Empty(t, got)
				continue
			}
			require.Len(t, got, 1)
			require.EqualValues(t, size, got[0].ByteLen)
			if op != verbs.OpSend {
				require.EqualValues(t, 77, got[0].Imm)
			}
		}
		// WRITE and READ have used no receive buffers. So two buffers are left, which two
		// SENDs take.
		for range 2 {
			a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
		}
		s.Settle()
		require.Len(t, b.DrainCQ(), 2)
	}
}

// A reset queue pair forgets its unsent responses, and does not send them after a
// reconnect.
func TestWireResetDropsResponses(t *testing.T) {
	p := newScript(t)
	p.deliver(p.read(0, 0, 10))
	require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	p.e.Connect(p.e, scriptAttr)
	p.e.PollForTimers()
	p.wantQuiet("the READ belonged to the earlier connection")
	p.conn = connOf(p.e.QP)
	p.e.Recv(2, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 1)))
	p.wantSyndrome("the new connection counts from its first PSN", wire.AckNoCredits, 0)
}

// The receiver may close its queue pair after the last message. The sender still gets
// the acknowledgement.
func TestWireClosedAfterTheLastMessage(t *testing.T) {
	for name, end := range map[string]func(*qptest.End) error{
		"error": func(e *qptest.End) error { return e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState) },
		"reset": func(e *qptest.End) error { return e.QP.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState) },
		"close": func(e *qptest.End) error { return e.QP.Close() },
	} {
		p := newScript(t)
		p.e.Recv(1, 0, 10)
		p.deliver(withAckReq(p.request(wire.SendOnly, 0, 1)))
		require.NoError(t, end(p.e))
		p.wantSyndrome(name, wire.AckNoCredits, 0)
		p.send(p.request(wire.SendOnly, 0, 1))
		p.wantQuiet("a closed queue pair does not respond")
	}
}

// A queue pair fails while packets of other connections occupy all buffers. These
// packets are sent, and then the acknowledgement of the failed queue pair.
func TestWireClosedWithoutRoom(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 10)
	p.deliver(withAckReq(p.request(wire.SendOnly, 0, 1)))
	p.room, p.freed = 0, 1
	require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	p.wantSyndrome("", wire.AckNoCredits, 0)
}

// A queue pair fails while the response to a READ is due. A SEND before the READ is still
// acknowledged, but not a SEND after it.
func TestWireClosedWithDueResponse(t *testing.T) {
	begin := func() *script {
		p := newScript(t)
		p.e.Recv(1, 0, 10)
		return p
	}
	fail := func(p *script) {
		require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
	p := begin()
	p.deliver(withAckReq(p.request(wire.SendOnly, 0, 1)), p.read(1, 0, 10))
	fail(p)
	p.wantSyndrome("", wire.AckNoCredits, 0)
	p.wantQuiet("")

	p = begin()
	p.deliver(p.read(0, 0, 10), withAckReq(p.request(wire.SendOnly, 1, 1)))
	fail(p)
	p.wantQuiet("")
}

// A queue pair can be connected to a queue pair of another host with the same number.
func TestEqualNumbersOnTheWirePath(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.NewEnd(), s.NewEnd()
	a.Connect(a, func(attr *verbs.QPAttr) { attr.AH.DestGID = verbs.GIDFromAddr(s.Host(b).Addr) })
}

// The function heard is called for a packet with the peer's first PSN, and for no other
// packet.
func TestFirstDataNeedsItsPSN(t *testing.T) {
	p := newScript(t)
	heard := 0
	p.conn.all.heard = func(uint32) { heard++ }
	receive := func(num uint32) { p.arrive(p.packet(wire.WriteOnly, theirBase.Add(int(num)), 0)) }
	for num := uint32(1); num < 1<<23; num *= 2 {
		receive(num)
		receive(1<<24 - num)
		require.Zero(t, heard)
	}
	receive(0)
	receive(0)
	require.Equal(t, 1, heard)
}
