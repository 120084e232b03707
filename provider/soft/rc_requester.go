//go:build linux

package soft

const (
	// maxConnWindow is the largest number of unacknowledged packets of a connection. It
	// is the limit of rxe (RXE_MAX_UNACKED_PSNS). The type congestion limits all
	// connections to one address together.
	maxConnWindow = 128
	// ackEveryPackets is the greatest number of packets of a message that are sent without
	// a request for an acknowledgement. It is arbitrary.
	ackEveryPackets = 32
	// readPiece is how many packets of a READ's response are requested at a time. The
	// peer sends these packets without a pause, so the socket of this side must have
	// room for all of them.
	readPiece = 32
)

// An rcRequester says which packets of a rcConn's requests were acknowledged, which were
// sent, and which one is sent next. Packets are counted from 0, and the count is the
// packet's sequence. ackedEnd <= seq <= sentEnd <= ackedEnd + maxConnWindow always
// holds. The zero value is that of a connection that has sent nothing.
type rcRequester struct {
	ackedEnd        uint64 // all sequences below ackedEnd were acknowledged by the peer
	seq             uint64 // sequence of the next packet to be sent
	sentEnd         uint64 // all sequences below sentEnd were sent at least once
	sinceAckRequest int    // packets sent since the last one with the AckReq bit
	readsInFlight   int    // READ requests and atomics that have no complete response
	blocked         bool   // true if the last attempt to send found no room in the packetConn
	atomicResult    [8]byte
}

// unacked returns how many sequences before seq are not acknowledged.
func (r *rcRequester) unacked() uint64 { return r.seq - r.ackedEnd }

// wasSent reports whether the packet to be sent next was sent before.
func (r *rcRequester) wasSent() bool { return r.seq < r.sentEnd }

// sent records that a packet that takes n sequences was sent. The parameter ackReq is
// true if the packet has the AckReq bit.
func (r *rcRequester) sent(n uint64, ackReq bool) {
	r.seq += n
	r.sentEnd = max(r.sentEnd, r.seq)
	if r.sinceAckRequest++; ackReq {
		r.sinceAckRequest = 0
	}
}

// acknowledge records that all sequences below the parameter end were acknowledged. The
// parameter end is greater than ackedEnd. After goBack it may be greater than seq too;
// in that case the packets from seq to end need not be sent again.
func (r *rcRequester) acknowledge(end uint64) {
	r.ackedEnd, r.seq = end, max(r.seq, end)
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (r *rcRequester) goBack() {
	r.seq, r.readsInFlight, r.sinceAckRequest = r.ackedEnd, 0, 0
}

// responseFrom returns the sequence of the next packet of the response of w, a READ or an
// atomic that is outstanding.
func (r *rcRequester) responseFrom(w *wqe) uint64 { return max(r.ackedEnd, w.rc.firstSeq) }

// readDone records that the response of an atomic, or of a piece of a READ, is complete.
// goBack sets readsInFlight to 0. If the response to a request that was sent before
// goBack arrives later, readsInFlight may be 0 already and then stays 0.
func (r *rcRequester) readDone() {
	if r.readsInFlight > 0 {
		r.readsInFlight--
	}
}
