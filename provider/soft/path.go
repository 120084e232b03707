//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A path transfers the requests of one queue pair to its peer, and delivers the peer's
// requests to the queue pair. shmConn, rcConn and udPath implement the interface. A path
// belongs to the queue pair's shard. Of the methods of the queue pair, a path calls only
// those in the interface engine.
type path interface {
	// ready makes the path usable when the queue pair enters RTR. It returns an error if
	// that is not possible.
	ready() error
	// transmit sends requests from the send queue until the queue is empty or the path
	// has no room. The queue pair calls it after posting. The path calls it itself when
	// it has room again.
	transmit()
	// sendInline sends one SEND whose payload is data, and returns the path sequence of
	// its last fragment. The flags are those of the request. The peer may not see the
	// message before transmit is called. sendInline returns false, and does nothing, if
	// the path can not send the whole message now, or has to keep a copy of data. The
	// queue pair calls it only if no request waits to be sent.
	sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool)
	// resend repeats the request for which an RNR NAK was received, and the requests
	// after it.
	resend()
	// takeAcks processes the acknowledgements that have arrived. It returns true if
	// there were any.
	takeAcks() bool
	// acked returns the end of what the peer has acknowledged: the peer has acknowledged
	// all path sequences below the result, and no others.
	acked() uint64
	// receivesPosted is called after receive buffers were posted. The peer may be waiting
	// for them.
	receivesPosted()
	// requestsPending reports whether the path has received packets or ring slots of the
	// peer that it has not processed yet.
	requestsPending() bool
	// abort ends a request whose remaining fragments did not arrive. It sends a NAK for
	// the request, and then calls requestFailed.
	abort(a outcome)
	// accessSource returns the source to which an access error of the peer is counted;
	// see access.ErrorLimit. It returns false if the peer is this process.
	accessSource() (access.Source, bool)
	// rebind offers the path an end that connection management has made for the queue
	// pair. A path accepts the end if its present end is provisional and the peer has
	// not taken the other provisional end. Then the result moved is a new path with the
	// offered end. The queue pair has to use this new path from now on, and to send its
	// requests again. If the path does not accept the end, moved is nil. The result
	// taken is false if the caller still owns the offered end. It is true if the new
	// path owns the end, or if rebind has released the end.
	rebind(end *localEnd) (moved path, taken bool, err error)
	// peerGone reports that the peer's process has ended without closing the connection
	// that has the given end. A path that does not use the end ignores the call.
	peerGone(end *shm.End)
	// receiveAt makes a UD queue pair receive datagrams at the given address of this
	// host and at no other address; see connmgr.QueuePair.
	receiveAt(at netip.Addr) error
	// stopResponding ends the processing of the peer's requests. It is called when the
	// queue pair enters the error state.
	stopResponding()
	// reset is called when the queue pair enters RESET. It drops requests that were not
	// sent. It returns true if the queue pair keeps the path. It returns false if the
	// queue pair has to make a new path before it can send again; in that case reset has
	// called detach.
	reset() (usable bool)
	// detach releases the resources of the path. No method may be called after it.
	detach()
}

// An outcome is the result of the responder's attempt to execute a request. It decides
// which acknowledgement the peer gets.
type outcome uint8

const (
	// outcomeAck: the request was executed. The peer gets an acknowledgement or a response.
	outcomeAck outcome = iota
	// outcomeRNR: there was no receive buffer. The peer gets an RNR NAK, and may repeat
	// the request.
	outcomeRNR
	// The next three outcomes mean that the request failed. The peer gets the NAK code
	// of the same name (IBTA vol. 1, 9.3.5, table 46), and the queue pair enters the
	// error state.
	outcomeInvalidRequest
	outcomeAccessError
	outcomeOperationError
)
