//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// engine has the methods of a queue pair that its path may call. Only qp implements it.
// A path holds a *qp nevertheless, because calls through an interface can not be
// inlined: with them BenchmarkSendReceive took 1.1 to 1.5 times as long, and
// BenchmarkWireRoundTrip 1.25 times. A test checks that the paths use these methods and
// the constant fields dev, shard and num of qp, and nothing else.
//
// A path counts the packets or fragments that it sends; the count is the path sequence.
// The path alone knows which sequences the peer has acknowledged. The queue pair only
// stores the last sequence of each request.
//
// Methods whose names begin with "on", and failRequest, acknowledged, response and
// requestFailed, may move the queue pair to the error state. That calls stopResponding of
// the path.
type engine interface {
	// attributes returns the attributes that Modify has set. The caller must not change
	// them.
	attributes() *verbs.QPAttr
	// isServing reports whether the queue pair processes packets of the peer.
	isServing() bool

	// The requester: what is sent next. For each request of nextToSend the path calls
	// markBegun when it has sent the first part, and markSent when it has sent the last.
	nextToSend() *wqe
	nextIsNew() bool
	gather(dst []byte, w *wqe, offset uint32) bool
	signaled(w *wqe) bool
	markBegun(w *wqe)
	markSent(w *wqe, seq uint64)
	failRequest(w *wqe, status verbs.Status)
	rewind()

	// The requester: what it waits for.
	outstanding() bool
	hasUnsent() bool
	sendQueueEmpty() bool
	awaitsAck() bool
	awaitsResponse() bool
	awaitsRNRTimer() bool

	// The requester: what the peer has sent in response, or has not sent in time.
	acknowledged(seq uint64)
	expectedResponse() *wqe
	response(op fragment.Op, data []byte, last bool) bool
	onRNR(code uint8)
	onNAK(a outcome)
	onInvalidResponse()
	onInvalidMemory()
	onRetriesExceeded()
	onPeerSilent()
	onPeerActive()

	// The responder. Each method returns the outcome of a request. When a request has
	// failed, the path sends a NAK and then calls requestFailed.
	deliver(r *fragment.Fragment) outcome
	deliverRead(r *fragment.Fragment) (memoryRange, outcome)
	deliverAtomic(r *fragment.Fragment) (old uint64, a outcome)
	readInto(dst []byte, m *memoryRange) bool
	onInvalidRequest() outcome
	requestFailed(a outcome)
	receiveBuffers() int
	sharesReceives() bool

	// UD only.
	checkQueuedDatagram(w *wqe) verbs.Status
	deliverDatagram(d *datagram)
}
