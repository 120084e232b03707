//go:build linux

package soft

// A path carries the requests of one RC queue pair to its peer, and brings the
// peer's. It belongs to the queue pair's shard. The queue pair calls it through
// this interface; it calls the queue pair's methods of requester.go and
// responder.go.
type path interface {
	// transmit sends what the send queue holds, as far as there is room. It is
	// called after posting, and again by the path itself when there is room.
	transmit()
	// resend repeats the request that was answered with RNR NAK, and what
	// follows it.
	resend()
	// collect takes the answers that have arrived, and reports whether there
	// were any.
	takeAcks() bool
	// offer is told that receive buffers were posted, for which a peer may wait.
	receivesPosted()
	// requestsPending reports whether packets or ring slots from the peer have arrived that
	// were not processed yet.
	requestsPending() bool
	// abort answers the unfinished request, whose remaining fragments did not come, with
	// an error. It calls requestFailed when that answer was sent.
	abort(a outcome)
	// source returns the source to which the peer's access errors are counted; false if
	// the peer is this process.
	accessSource() (accessSource, bool)
	// silence stops answering: the queue pair has gone to the error state.
	stopResponding()
	// detach gives up the path's resources. The queue pair calls nothing after.
	detach()
}

// An answer is what the responder makes of a request.
type outcome uint8

const (
	outcomeAck            outcome = iota
	outcomeRNR                    // no receive buffer; the request may be repeated
	outcomeInvalidRequest         // NAK codes of IBTA vol. 1, 9.3.5, table 46
	outcomeAccessError
	outcomeOperationError
)

// A request is one fragment of a message for the responder. Its payload may lie
// in memory that the peer can change while it is looked at.
type inboundRequest struct {
	frame
	payload []byte
}

func (r *inboundRequest) first() bool { return r.flags&flagFirst != 0 }
func (r *inboundRequest) last() bool  { return r.flags&flagLast != 0 }
