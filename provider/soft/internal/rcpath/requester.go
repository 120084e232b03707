//go:build linux

package rcpath

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"

const (
	// maxConnWindow is the largest number of unacknowledged packets of a connection, as
	// in rxe (RXE_MAX_UNACKED_PSNS).
	maxConnWindow = 128
	// In a long message, at least every ackEveryPackets-th packet has the AckReq bit.
	// Arbitrary.
	ackEveryPackets = 32
	// readPiece is how many response packets of a READ are requested at once. The socket
	// needs room for all of them.
	readPiece = 32
)

// A requester counts request packets. The first packet has the sequence 0. The fields
// always keep this order: ackedEnd <= seq <= sentEnd <= ackedEnd + maxConnWindow. The
// zero value is ready to use.
type requester struct {
	ackedEnd        uint64 // all sequences below ackedEnd were acknowledged by the peer
	seq             uint64 // sequence of the next packet to be sent
	sentEnd         uint64 // all sequences below sentEnd were sent at least once
	sinceAckRequest int    // number of packets sent since the last packet with the AckReq bit
	readsInFlight   int    // number of READ requests and atomics without a complete response
	blocked         bool   // true if the last attempt to send found no room in the packets.Conn
	awaitsRoom      bool   // true if the last attempt found no room in the congestion window
	atomicResult    [8]byte
}

// unacked returns how many packets before seq are not acknowledged.
func (r *requester) unacked() uint64 { return r.seq - r.ackedEnd }

// wasSent reports whether the next packet was sent before.
func (r *requester) wasSent() bool { return r.seq < r.sentEnd }

// sent records that a packet of n sequences was sent, with or without the AckReq bit.
func (r *requester) sent(n uint64, ackReq bool) {
	r.seq += n
	r.sentEnd = max(r.sentEnd, r.seq)
	if r.sinceAckRequest++; ackReq {
		r.sinceAckRequest = 0
	}
}

// acknowledge records that all sequences below end were acknowledged.
func (r *requester) acknowledge(end uint64) {
	r.ackedEnd, r.seq = end, max(r.seq, end)
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (r *requester) goBack() {
	r.seq, r.readsInFlight, r.sinceAckRequest = r.ackedEnd, 0, 0
}

// responseFrom returns the sequence of the next response packet of w, a READ or atomic.
func (r *requester) responseFrom(w *qp.WQE) uint64 { return max(r.ackedEnd, w.RC.FirstSeq) }

// readDone records the complete response of an atomic or of one piece of a READ. The
// response may arrive after goBack has set readsInFlight to 0. So readsInFlight may be 0
// already.
func (r *requester) readDone() {
	if r.readsInFlight > 0 {
		r.readsInFlight--
	}
}
