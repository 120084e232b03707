//go:build linux

package qp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Path sends the requests of one queue pair, and delivers the peer's requests. It
// belongs to the queue pair's shard. The path calls the queue pair's methods directly, and
// not through an interface, because that would need 7 to 8 % more instructions (amd64).
//
// A path sequence is the number that a path gives to a packet or fragment. The path
// reports which path sequences the peer has acknowledged.
type Path interface {
	// Transmit sends requests until the send queue is empty or the path is full. The
	// path calls Transmit itself when it has room again.
	Transmit()
	// Acked returns the first path sequence that the peer has not acknowledged. A datagram
	// that was sent counts as acknowledged.
	Acked() uint64
	// Detach releases the resources of the path. No method may be called after it.
	Detach()
}

// A ReliablePath is the path of an RC queue pair, from RTR to RESET.
type ReliablePath interface {
	Path
	// StopResponding is called when the queue pair enters the error state, and before
	// Detach. From then on, the path processes no requests of the peer.
	StopResponding()
	// Abort sends a NAK for an incomplete request, and then calls RequestFailed.
	Abort(o Outcome)
	// AccessSource returns the source under which access.ErrorLimit counts access errors
	// of the peer, and partialBuffers its incomplete messages. It returns the zero value and
	// false if the peer is this process.
	AccessSource() (access.Source, bool)
}

// A LocalPath is a ReliablePath in shared memory.
type LocalPath interface {
	ReliablePath
	// AttributesChanged is called after Modify has changed attributes of the queue pair.
	AttributesChanged()
	// SendInline sends one SEND that is not in the send queue. All requests in the send
	// queue must have been sent. Perhaps the peer sees the message only after the next
	// call of Transmit. SendInline returns the path sequence of the message's last
	// fragment, or false if nothing was sent.
	SendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool)
	// TakeAcks processes the acknowledgements that have arrived, and returns false if
	// there were none. On the wire path they arrive as packets.
	TakeAcks() bool
	// ConsumeArrived processes the slots of the peer that have arrived.
	ConsumeArrived()
}

// A WirePath is a ReliablePath in packets.
type WirePath interface {
	ReliablePath
	// Resend is called when the RNR timer has fired. The request that the peer has refused
	// and the requests after it are sent again by the next call of Transmit.
	Resend()
	// ReceivesPosted is called after receive buffers were posted. The peer may wait for
	// credits.
	ReceivesPosted()
}

// A DatagramPath is the path of a UD queue pair, which has it from its creation to Close.
type DatagramPath interface {
	Path
	// Claim reserves a queue pair number on this host. It fails if the number is taken.
	Claim(num uint32) error
	// Attach makes the shard deliver arriving datagrams to the queue pair.
	Attach() error
	// Ready opens the sockets for receiving when the queue pair enters RTR.
	Ready() error
	// Clear drops the datagrams that wait to be sent.
	Clear()
	// ReceiveAt makes the queue pair receive at one address only; see
	// connmgr.QueuePair.
	ReceiveAt(at netip.Addr) error
}

// Sockets send and receive the packets of a shard: a udp.Conn, or the simulation of one.
// They belong to the goroutine that drives the shard, and never block.
type Sockets interface {
	packets.Conn
	// Poll receives some packets, and sends the queued packets; see udp.Conn.Poll.
	Poll(spin bool)
	// Drain receives all packets that have arrived; see udp.Conn.Drain.
	Drain(resume bool) (done bool)
	// Arm makes the udp.Watcher wake the owner when packets arrive or can be sent.
	Arm()
	// OverflowSockets and PollOverflow are for sockets that only epoll polls; see
	// udp.Conn.OverflowSockets.
	OverflowSockets() int
	PollOverflow()
	// CloseUnused closes the sockets that no open route uses.
	CloseUnused()
}

var _ Sockets = (*udp.Conn)(nil)

// An Outcome is the result of executing a request of the peer. It decides how the peer
// is answered.
type Outcome uint8

const (
	// OutcomeAck: the request was executed.
	OutcomeAck Outcome = iota
	// OutcomeRNR: there was no receive buffer, or none for the source of the peer. The peer
	// gets an RNR NAK; see qp.RNRTimer.
	OutcomeRNR
	// OutcomeInvalidRequest and the next two: the request failed. The peer gets the NAK code
	// of the same name (IBTA vol. 1, 9.3.5, table 46), and the queue pair fails.
	OutcomeInvalidRequest
	// OutcomeAccessError: see OutcomeInvalidRequest.
	OutcomeAccessError
	// OutcomeOperationError: see OutcomeInvalidRequest.
	OutcomeOperationError
)
