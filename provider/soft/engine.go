//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// engine has the methods of a queue pair that its path may call. Only qp implements it.
// The interface is a list for readers, and for a test: the test checks that the paths
// use only these methods of qp, and of its fields only dev, shard and num, which never
// change. The paths call the methods of *qp directly and not through the interface,
// because calls through an interface are not inlined. With an interface,
// BenchmarkSendReceive executes 8 % more instructions, and BenchmarkWireRoundTrip 7 %
// more (on amd64).
//
// A path numbers the packets or fragments that it sends. This number is the path
// sequence. The queue pair stores for each request the sequence of its last packet or
// fragment. The path tells the queue pair which sequences the peer has acknowledged.
//
// Methods whose names begin with "on", and failRequest, acknowledged, response and
// requestFailed, may move the queue pair to the error state. The queue pair then calls
// the path's method stopResponding.
type engine interface {
	// attributes returns the attributes that Modify has set. The caller must not change
	// them.
	attributes() *verbs.QPAttr
	// isServing reports whether the queue pair processes packets of the peer.
	isServing() bool

	// These methods give the path the requests to be sent. For each request that nextToSend
	// returns, the path calls markBegun when it has sent the first packet or fragment, and
	// markSent when it has sent the last one.
	nextToSend() *wqe
	nextIsNew() bool
	gather(dst []byte, w *wqe, offset uint32) bool
	signaled(w *wqe) bool
	markBegun(w *wqe)
	markSent(w *wqe, seq uint64)
	failRequest(w *wqe, status verbs.Status)
	rewind()

	// These methods report what the requester waits for.
	outstanding() bool
	hasUnsent() bool
	sendQueueEmpty() bool
	awaitsAck() bool
	awaitsResponse() bool
	awaitsRNRTimer() bool

	// These methods tell the requester what the peer has sent in response, or that the peer
	// has not responded in time.
	acknowledged(seq uint64)
	expectedResponse() *wqe
	response(op fragment.Op, data []byte, last bool) bool
	onRNR(code uint8)
	onNAK(a outcome)
	onInvalidResponse()
	onInvalidMemory()
	onRetriesExceeded()
	onPeerStopped()
	onPeerActive()

	// These methods execute the peer's requests. Most of them return the outcome of a
	// request. If a request has failed, the path sends a NAK, and then calls
	// requestFailed.
	deliver(r *fragment.Fragment) outcome
	deliverInline(payload []byte, solicited bool) bool
	deliverRead(r *fragment.Fragment) (memoryRange, outcome)
	deliverAtomic(r *fragment.Fragment) (old uint64, a outcome)
	readInto(dst []byte, m *memoryRange) bool
	onInvalidRequest() outcome
	requestFailed(a outcome)
	receiveBuffers() int
	sharesReceives() bool

	// These methods are for UD queue pairs.
	checkQueuedDatagram(w *wqe) verbs.Status
	deliverDatagram(d *datagram)
}
