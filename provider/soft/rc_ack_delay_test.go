//go:build linux

package soft

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// talk takes a message that asks for an acknowledgement, and replies, which goes
// out at once.
func (p *script) exchangeMessage(seq uint64) {
	p.t.Helper()
	p.e.recv(seq, 0, 10)
	p.deliver(withAckReq(p.request(wire.SendOnly, seq, 10)))
	p.wantQuiet("not yet")
	p.post(seq, verbs.OpSend, 1)
	p.wantRequest("the reply", wire.SendOnly, seq)
	p.deliver(p.ack(seq))
}

// A peer that only sends is answered in the next drive.
func TestWireAckWithoutReply(t *testing.T) {
	p := newScript(t)
	p.e.recv(1, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("at once", wire.AckNoCredits, 0)
}

// One that gets a reply can wait for the acknowledgement, but not for ever.
func TestWireAckIsDelayed(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	for range maxAckDelays - 1 {
		p.e.qp.shard.wire.sendDue()
		p.wantQuiet("put off")
	}
	p.e.qp.shard.wire.sendDue()
	p.wantSyndrome("it is time", wire.AckNoCredits, 0)
	p.e.qp.shard.wire.sendDue()
	p.wantQuiet("once")
}

// One acknowledgement does for many messages.
func TestWireAckBurst(t *testing.T) {
	p := newScript(t)
	for seq := range uint64(maxDelayedPackets - 1) {
		p.exchangeMessage(seq)
		p.e.drainCQ()
	}
	p.wantQuiet("put off")
	p.e.recv(99, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, maxDelayedPackets-1, 10)))
	p.wantSyndrome("all of them", wire.AckNoCredits, maxDelayedPackets-1)
}

// Nothing is kept back by an owner that may go to sleep.
func TestWireAckBeforeSleep(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	p.e.qp.shard.wire.sendAll()
	p.wantSyndrome("before sleep", wire.AckNoCredits, 0)
}

// A message that comes again means that the acknowledgement is missed.
func TestWireAckOfDuplicate(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("at once", wire.AckNoCredits, 0)
}
