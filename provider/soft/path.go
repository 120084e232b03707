//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A path sends the requests of one queue pair, and delivers the peer's requests. It
// belongs to the queue pair's shard. It uses the queue pair only through the interface
// engine.
type path interface {
	// ready makes the path usable when the queue pair enters RTR.
	ready() error
	// attributesChanged is called after Modify has changed attributes of the queue pair.
	attributesChanged()
	// transmit sends requests until the send queue is empty or the path is full. The
	// path calls transmit() itself when it has room again.
	transmit()
	// sendInline sends one SEND that is not in the send queue. All requests in the send
	// queue must have been sent. Perhaps the peer sees the message only after the next
	// call of transmit(). sendInline returns the path sequence of the message's last
	// fragment, or false if nothing was sent.
	sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool)
	// resend repeats the request that the peer has refused with an RNR NAK, and the
	// requests after it.
	resend()
	// takeAcks processes the acknowledgements that have arrived, and returns false if
	// there were none.
	takeAcks() bool
	// acked returns the first path sequence that the peer has not acknowledged.
	acked() uint64
	// receivesPosted is called after receive buffers were posted.
	receivesPosted()
	// consumeArrived processes the packets or ring slots of the peer that have arrived.
	consumeArrived()
	// abort sends a NAK for an incomplete request, and then calls requestFailed.
	abort(a outcome)
	// accessSource returns the source under which access.ErrorLimit counts access errors
	// of the peer, and partialBuffers its incomplete messages. It returns the zero value and
	// false if the peer is this process, and for a UD queue pair.
	accessSource() (access.Source, bool)
	// rebind is called when connection management binds an End to a queue pair that
	// already has a path. This device may have made shared memory for that path. If the
	// peer has not taken its End of this memory, nothing was sent over the path yet. In
	// this case rebind returns a new path that uses the bound End, and the queue pair
	// sends all its requests over the new path. Otherwise moved is nil. If taken is
	// false, the caller still owns the bound End.
	rebind(end *localEnd) (moved path, taken bool, err error)
	// peerGone is called when the peer's process has ended without closing the connection.
	// The parameter end is the End whose connection to that process has ended. A path
	// that uses another End ignores the call.
	peerGone(end *shm.End)
	// awaitsNotices first processes all slots that have arrived. It then reports whether
	// requests of this side are still outstanding and the peer has announced notices that
	// have not arrived. A notice says which of the requests the peer has executed.
	// awaitsNotices returns false if the path does not use the given End.
	awaitsNotices(end *shm.End) bool
	// receiveAt makes a UD queue pair receive at one address only; see
	// connmgr.QueuePair.
	receiveAt(at netip.Addr) error
	// stopResponding is called when the queue pair enters the error state. From then on,
	// the path processes no requests of the peer.
	stopResponding()
	// reset is called when the queue pair enters RESET. It drops unsent requests, and
	// returns false if it has detached the path.
	reset() (usable bool)
	// detach releases the resources of the path. No method may be called after it.
	detach()
}

// An outcome is the result of executing a request of the peer. It decides how the peer
// is answered.
type outcome uint8

const (
	// outcomeAck: the request was executed.
	outcomeAck outcome = iota
	// outcomeRNR: there was no receive buffer, or none for the source of the peer. The peer
	// gets an RNR NAK; see qp.rnrTimer.
	outcomeRNR
	// The request failed. The peer gets the NAK code of the same name (IBTA vol. 1,
	// 9.3.5, table 46), and the queue pair fails.
	outcomeInvalidRequest
	outcomeAccessError
	outcomeOperationError
)
