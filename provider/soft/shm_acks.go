//go:build linux

package soft

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// failureOutcomes has the outcome for each reason of a failure.
var failureOutcomes = [...]outcome{
	shm.InvalidRequest: outcomeInvalidRequest,
	shm.AccessError:    outcomeAccessError,
	shm.OperationError: outcomeOperationError,
}

// failureOf returns the reason to send to the peer for a failed request.
func failureOf(a outcome) shm.Failure { return shm.Failure(slices.Index(failureOutcomes[:], a)) }

// shmSent has the positions of a shmConn in the ring of its requests. The zero value is
// valid.
type shmSent struct {
	seq     uint64  // number of slots published; also the path sequence
	acked   uint64  // number of slots that the peer has acknowledged
	lastAck shm.Ack // last acknowledgement that was processed
}

// acknowledge processes an acknowledgement of the peer. It has these results:
//
//   - progress is true if the peer has acknowledged more slots.
//   - nak is true if the acknowledgement has a new NAK.
//   - ok is false if the acknowledgement is invalid.
func (s *shmSent) acknowledge(ack shm.Ack) (progress, nak, ok bool) {
	n := uint64(ack.Consumed() - uint32(s.acked))
	if n > s.seq-s.acked {
		return false, false, false
	}
	nak = ack.NAKs() != s.lastAck.NAKs()
	s.lastAck, s.acked = ack, s.acked+n
	return n > 0, nak, true
}

// shmAcks has the acknowledgements that a shmConn sends. The zero value is valid.
type shmAcks struct {
	unacked   uint32  // number of slots consumed and not acknowledged
	requested bool    // true if the peer waits for an acknowledgement
	naks      uint32  // number of NAKs and RNR NAKs sent; wraps
	last      shm.NAK // last NAK sent, repeated in each acknowledgement; 0 if none
}

// consumed counts a consumed slot. The parameter ask means that the peer waits for its
// acknowledgement.
func (a *shmAcks) consumed(ask bool) {
	a.unacked++
	a.requested = a.requested || ask
}

// due reports whether an acknowledgement has to be sent now: the peer waits for one, or
// the number of unacknowledged slots has reached the limit. If due returns false, the
// acknowledgement may be sent later.
func (a *shmAcks) due(limit uint32) bool { return a.requested || a.unacked >= limit }

// acknowledge returns the acknowledgement of all slots before a position, to be stored
// in shared memory.
func (a *shmAcks) acknowledge(head uint32) shm.Ack {
	a.unacked, a.requested = 0, false
	return shm.NewAck(head, a.last, a.naks)
}

// refuse is like acknowledge, and adds a NAK for the slot at the position.
func (a *shmAcks) refuse(head uint32, nak shm.NAK) shm.Ack {
	a.naks++
	a.last = nak
	return a.acknowledge(head)
}
