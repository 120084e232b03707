//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Statuses of the receive buffer after an invalid request:
//
//   - bufferTaken: the request had taken the buffer.
//   - bufferShort: the buffer was too short for the message.
//   - bufferUnused: the buffer was flushed.
const (
	bufferTaken  = verbs.StatusRemInvReqErr
	bufferShort  = verbs.StatusLocLenErr
	bufferUnused = verbs.StatusWRFlushErr
)

// invalidRequests are sequences of packets. The last packet of each sequence is invalid.
var invalidRequests = []struct {
	name    string
	packets func(p *script) []wire.Packet
	nak     wire.NAKCode
	buffer  verbs.Status // expected status of the receive buffer
}{
	{"FIRST too short", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendFirst, 0, scriptMTU-4)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"MIDDLE too long", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendFirst, 0, scriptMTU), p.request(wire.SendMiddle, 1, scriptMTU+4)}
	}, wire.NAKInvalidRequest, bufferTaken},
	{"LAST empty", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendFirst, 0, scriptMTU), p.request(wire.SendLast, 1, 0)}
	}, wire.NAKInvalidRequest, bufferTaken},
	{"ONLY too long", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendOnly, 0, scriptMTU+1)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"LAST without FIRST", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendLast, 0, 1)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"WRITE within a SEND", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendFirst, 0, scriptMTU), p.setRETH(p.request(wire.WriteOnly, 1, 1), 0, 1)}
	}, wire.NAKInvalidRequest, bufferTaken},
	{"SEND within a WRITE", func(p *script) []wire.Packet {
		return []wire.Packet{p.setRETH(p.request(wire.WriteFirst, 0, scriptMTU), 0, 2*scriptMTU), p.request(wire.SendOnly, 1, 1)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"WRITE shorter than announced", func(p *script) []wire.Packet {
		return []wire.Packet{p.setRETH(p.request(wire.WriteOnly, 0, 8), 0, 9)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"WRITE longer than any message", func(p *script) []wire.Packet {
		return []wire.Packet{p.setRETH(p.request(wire.WriteFirst, 0, scriptMTU), 0, 1<<31+1)}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"SEND that invalidates no window", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendOnlyInv, 0, 1)}
	}, wire.NAKRemoteAccess, bufferTaken},
	{"atomic that is not aligned", func(p *script) []wire.Packet {
		pkt := p.request(wire.FetchAdd, 0, 0)
		pkt.AtomicETH().Set(p.e.MR.Addr()+4, p.e.MR.RKey(), 1, 0)
		return []wire.Packet{pkt}
	}, wire.NAKInvalidRequest, bufferUnused},
	{"SEND longer than the buffer", func(p *script) []wire.Packet {
		return []wire.Packet{p.request(wire.SendFirst, 0, scriptMTU), p.request(wire.SendMiddle, 1, scriptMTU), p.request(wire.SendLast, 2, 1)}
	}, wire.NAKInvalidRequest, bufferShort},
	{"WRITE with a wrong key", func(p *script) []wire.Packet {
		pkt := p.request(wire.WriteOnly, 0, 1)
		pkt.RETH().Set(p.e.MR.Addr(), p.e.MR.RKey()+1, 1)
		return []wire.Packet{pkt}
	}, wire.NAKRemoteAccess, bufferUnused},
	{"WRITE that ends outside the region", func(p *script) []wire.Packet {
		return []wire.Packet{p.setRETH(p.request(wire.WriteFirst, 0, scriptMTU), qptest.EndSize-scriptMTU, 2*scriptMTU)}
	}, wire.NAKRemoteAccess, bufferUnused},
	{"READ that begins outside the region", func(p *script) []wire.Packet {
		return []wire.Packet{p.read(0, -1, 1)}
	}, wire.NAKRemoteAccess, bufferUnused},
}

// After an invalid request, the queue pair enters the error state. The peer gets a NAK,
// and no later responses.
func TestWireInvalidRequests(t *testing.T) {
	for _, c := range invalidRequests {
		t.Run(c.name, func(t *testing.T) {
			p := newScript(t)
			p.e.Recv(1, 0, 2*scriptMTU)
			pkts := c.packets(p)
			p.send(pkts...)
			p.wantSyndrome(c.name, wire.NAK(c.nak), uint64(len(pkts)-1))
			p.wantDone(c.name, c.buffer, 1)
			event := verbs.AsyncQPRequestError
			if c.nak == wire.NAKRemoteAccess {
				event = verbs.AsyncQPAccessError
			}
			p.wantAsync(event)
			require.Equal(t, verbs.StateError, p.e.QP.State())
			p.send(withAckReq(p.request(wire.SendOnly, uint64(len(pkts)), 1)), p.request(wire.SendOnly, 100, 1))
			p.wantQuiet("a queue pair in error does not respond")
		})
	}
}

func TestWireOperationsThatAreNotAllowed(t *testing.T) {
	for name, op := range map[string]wire.Opcode{"WRITE": wire.WriteOnly, "READ": wire.ReadRequest, "atomic": wire.FetchAdd} {
		p := newScript(t, func(attr *verbs.QPAttr) { attr.Access = verbs.AccessLocalWrite })
		p.send(p.request(op, 0, 0))
		p.wantSyndrome(name, wire.NAK(wire.NAKInvalidRequest), 0)
	}
	for name, op := range map[string]wire.Opcode{"READ": wire.ReadRequest, "atomic": wire.FetchAdd} {
		p := newScript(t, func(attr *verbs.QPAttr) { attr.MaxDestRdAtomic = 0 })
		p.send(p.request(op, 0, 0))
		p.wantSyndrome(name+" without response resources", wire.NAK(wire.NAKInvalidRequest), 0)
	}
}
