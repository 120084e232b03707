//go:build linux

package soft

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// failureOutcomes has, for each reason why a request has failed, the outcome of the
// request. No reason has the number 0.
var failureOutcomes = [...]outcome{
	shm.InvalidRequest: outcomeInvalidRequest,
	shm.AccessError:    outcomeAccessError,
	shm.OperationError: outcomeOperationError,
}

// failureOf returns the reason to send to the peer for a request that has failed with the
// outcome a.
func failureOf(a outcome) shm.Failure { return shm.Failure(slices.Index(failureOutcomes[:], a)) }

// shmSent has the positions of a shmConn in the ring of its own requests. The sequences
// that the queue pair stores in its requests are values of seq. The zero value is that of
// a connection that has sent nothing.
type shmSent struct {
	seq     uint64  // number of slots published
	acked   uint64  // number of slots that the peer has acknowledged
	lastAck shm.Ack // the last acknowledgement of the peer that was processed
}

// acknowledge processes the parameter ack, a value with which the peer acknowledges
// slots. The result progress is true if the value acknowledges slots that were not
// acknowledged before. The result nak is true if the value has a NAK that was not
// processed before. The result ok is false if the value acknowledges slots that were not
// published; in that case acknowledge changes nothing.
func (s *shmSent) acknowledge(ack shm.Ack) (progress, nak, ok bool) {
	n := uint64(ack.Consumed() - uint32(s.acked))
	if n > s.seq-s.acked {
		return false, false, false
	}
	nak = ack.NAKs() != s.lastAck.NAKs()
	s.lastAck, s.acked = ack, s.acked+n
	return n > 0, nak, true
}

// shmAcks has the acknowledgements that a shmConn sends. The zero value is that of a
// connection that has received nothing.
type shmAcks struct {
	unacked   uint32  // number of slots consumed and not acknowledged
	requested bool    // true if the peer waits for the acknowledgement of a consumed slot
	naks      uint32  // number of NAKs sent, RNR NAKs included; wraps
	last      shm.NAK // last NAK sent, which is part of each later acknowledgement; 0 if there was none
}

// consumed counts a slot that was consumed. The parameter ask is true if the peer waits
// for the slot's acknowledgement.
func (a *shmAcks) consumed(ask bool) {
	a.unacked++
	a.requested = a.requested || ask
}

// due reports whether an acknowledgement has to be sent now. It returns true if the peer
// waits for the acknowledgement, or if the number of unacknowledged slots has reached
// the parameter limit. Otherwise the acknowledgement is sent when the connection has no
// other work; see shmConn.poll.
func (a *shmAcks) due(limit uint32) bool { return a.requested || a.unacked >= limit }

// acknowledge returns the value that acknowledges all consumed slots, and that the
// caller stores in shared memory. The parameter head is the position in the ring after
// the last consumed slot.
func (a *shmAcks) acknowledge(head uint32) shm.Ack {
	a.unacked, a.requested = 0, false
	return shm.NewAck(head, a.last, a.naks)
}

// refuse returns the value that acknowledges all slots before the position head, and has
// a NAK for the slot at that position.
func (a *shmAcks) refuse(head uint32, nak shm.NAK) shm.Ack {
	a.naks++
	a.last = nak
	return a.acknowledge(head)
}
