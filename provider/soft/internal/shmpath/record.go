//go:build linux

package shmpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// This file tells the capture of the device what a connection sends and receives. Its methods
// are called only if the connection has a capture.

// Record makes a capture record what the connection sends and receives. It is called before
// the connection is used.
func (c *Conn) Record(to *capture.RC) { c.tap = to }

// recordSent records a slot of a request that was sent just now.
func (c *Conn) recordSent(s *shm.Slot, payload []byte) {
	f := s.Fragment
	f.Payload = payload
	c.tap.Sent(&f, s.Flags&shm.FlagAckReq != 0, c.p.sent.seq-1, c.p.sent.executed)
}

// recordDirect records a request that this side has executed in mapped memory of the peer. The
// data of a WRITE is in the parameter data, and the response of other requests in response.
func (c *Conn) recordDirect(w *qp.WQE, data, response []byte) {
	f := fragment.Fragment{
		Op: opOf[w.Op], Flags: fragment.First | fragment.Last,
		Addr: w.Addr, Key: w.Key, Total: w.Total, Payload: data,
	}
	if w.Op.Atomic() {
		var operands [fragment.AtomicOperands]byte
		c.fill(operands[:], w)
		f.Payload = operands[:]
	}
	c.tap.Direct(&f, response)
}

// recordInline records the message in the next slot, which receiveInline has executed. It reads
// the slot again: if receiveInline kept the payload for it, each message would take three more
// instructions, even without a capture.
func (c *Conn) recordInline() {
	payload, _, flags, ok := c.p.in.PeekSend()
	if !ok {
		return // The peer has changed the slot.
	}
	ackReq := flags&shm.FlagAckReq != 0
	c.tap.Received(&fragment.Fragment{Op: fragment.Send, Flags: flags, Payload: payload}, ackReq)
	if ackReq {
		c.oweAck()
	}
}

// oweAck is called when a request was executed that asks for an acknowledgement.
func (c *Conn) oweAck() {
	c.tap.OweAck()
	if !slices.Contains(c.p.owed, c) {
		c.p.owed = append(c.p.owed, c)
	}
}

// recordAcks records an acknowledgement for each connection that owes one. While notices wait,
// the acknowledgement in shared memory does not cover all requests, and recordAcks does
// nothing.
func (p *peer) recordAcks() {
	if p.acks.executed != p.in.Head {
		return
	}
	for _, c := range p.owed {
		c.tap.Ack()
	}
	clear(p.owed)
	p.owed = p.owed[:0]
}

// nakCodes has the code of a NAK for each reason of a failure.
var nakCodes = [...]wire.NAKCode{
	shm.InvalidRequest: wire.NAKInvalidRequest,
	shm.AccessError:    wire.NAKRemoteAccess,
	shm.OperationError: wire.NAKRemoteOperational,
}

// syndromeOf returns a valid NAK as it is in a packet.
func syndromeOf(nak shm.NAK) wire.Syndrome {
	if timer, rnr := nak.RNRTimer(); rnr {
		return wire.RNRNAK(timer)
	}
	failure, _ := nak.Failure()
	return wire.NAK(nakCodes[failure])
}
