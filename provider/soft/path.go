//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A path sends the requests of one queue pair, and delivers the peer's requests. It
// belongs to the queue pair's shard. The path calls the queue pair's methods directly, and
// not through an interface, because that would need 7 to 8 % more instructions (amd64).
//
// A path sequence is the number that a path gives to a packet or fragment. The path
// reports which path sequences the peer has acknowledged.
type path interface {
	// transmit sends requests until the send queue is empty or the path is full. The
	// path calls transmit() itself when it has room again.
	transmit()
	// acked returns the first path sequence that the peer has not acknowledged. A datagram
	// that was sent counts as acknowledged.
	acked() uint64
	// detach releases the resources of the path. No method may be called after it.
	detach()
}

// A reliablePath is the path of an RC queue pair, from RTR to RESET.
type reliablePath interface {
	path
	// stopResponding is called when the queue pair enters the error state, and before
	// detach. From then on, the path processes no requests of the peer.
	stopResponding()
	// abort sends a NAK for an incomplete request, and then calls requestFailed.
	abort(a outcome)
	// accessSource returns the source under which access.ErrorLimit counts access errors
	// of the peer, and partialBuffers its incomplete messages. It returns the zero value and
	// false if the peer is this process.
	accessSource() (access.Source, bool)
}

// A localPath is a reliablePath in shared memory.
type localPath interface {
	reliablePath
	// attributesChanged is called after Modify has changed attributes of the queue pair.
	attributesChanged()
	// sendInline sends one SEND that is not in the send queue. All requests in the send
	// queue must have been sent. Perhaps the peer sees the message only after the next
	// call of transmit(). sendInline returns the path sequence of the message's last
	// fragment, or false if nothing was sent.
	sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool)
	// takeAcks processes the acknowledgements that have arrived, and returns false if
	// there were none. On the wire path they arrive as packets.
	takeAcks() bool
	// consumeArrived processes the slots of the peer that have arrived.
	consumeArrived()
}

// A wirePath is a reliablePath in packets.
type wirePath interface {
	reliablePath
	// resend is called when the RNR timer has fired. The request that the peer has refused
	// and the requests after it are sent again by the next call of transmit().
	resend()
	// receivesPosted is called after receive buffers were posted. The peer may wait for
	// credits.
	receivesPosted()
}

// A datagramPath is the path of a UD queue pair, which has it from its creation to Close.
type datagramPath interface {
	path
	// claim reserves a queue pair number on this host. It fails if the number is taken.
	claim(num uint32) error
	// attach makes the shard deliver arriving datagrams to the queue pair.
	attach() error
	// ready opens the sockets for receiving when the queue pair enters RTR.
	ready() error
	// clear drops the datagrams that wait to be sent.
	clear()
	// receiveAt makes the queue pair receive at one address only; see
	// connmgr.QueuePair.
	receiveAt(at netip.Addr) error
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
