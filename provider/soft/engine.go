//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// engine lists the methods of a queue pair that its path may call. A test checks that
// the paths call no other methods. The paths do not call them through this interface but
// on *qp itself, because calls through an interface need 7 to 8 % more instructions
// (amd64).
//
// A path sequence is the number that a path gives to a packet or fragment. The path
// reports which path sequences the peer has acknowledged.
//
// Some methods may end the queue pair: failRequest, acknowledged, requestsAcknowledged,
// response, requestFailed, and all methods whose names begin with "on". The queue pair
// then calls path.stopResponding.
type engine interface {
	// attributes returns the attributes that were set with Modify. The caller must not
	// change them.
	attributes() *verbs.QPAttr
	// isServing reports whether the queue pair processes packets of the peer.
	isServing() bool

	// These methods give the path the requests to send. The path calls markBegun when it
	// sends the first packet of a request, and markSent after the last packet.
	nextToSend() *wqe
	nextIsNew() bool
	gather(dst []byte, w *wqe, offset uint32) bool
	gatherUncached(dst []byte, w *wqe, offset uint32) bool
	signaled(w *wqe) bool
	markBegun(w *wqe)
	markNextBegun()
	markSent(w *wqe, seq uint64)
	executed(w *wqe)
	failRequest(w *wqe, status verbs.Status)
	rewind()
	rewindTo(seq uint64) bool

	// The next methods return the state of the requester.

	outstanding() bool
	oldestRequest() (w *wqe, position uint32)
	hasUnsent() bool
	drains() bool
	takeLocalWait() bool
	awaitsRNRTimer() bool

	// The next methods report responses of the peer, or that a response is late.

	acknowledged(seq uint64)
	requestsAcknowledged(seq uint64)
	expectedResponse() *wqe
	response(op fragment.Op, data []byte, last bool) bool
	onRNR(code uint8)
	onNAK(a outcome)
	onInvalidResponse()
	onInvalidMemory()
	countViolation()
	onRetriesExceeded()

	// The next methods execute requests of the peer. The path calls requestFailed after it
	// has sent the NAK for a failed request.

	deliver(r *fragment.Fragment) outcome
	forgetWrite()
	nextAttempt() uint8
	firstConnection() bool
	inlineBatchFull() bool
	deliverInline(payload []byte, solicited bool) bool
	deliverRead(r *fragment.Fragment) (memoryRange, outcome)
	deliverAtomic(r *fragment.Fragment) (old uint64, a outcome)
	readInto(dst []byte, m *memoryRange) outcome
	onInvalidRequest() outcome
	rnrTimer() uint8
	requestFailed(a outcome)
	grants() grant
	passRegion(key uint32, doorbell int) bool
	receiveBuffers() int
	sharesReceives() bool

	// The methods checkQueuedDatagram and deliverDatagram are for UD queue pairs.
	checkQueuedDatagram(w *wqe) verbs.Status
	deliverDatagram(d *datagram)
}
