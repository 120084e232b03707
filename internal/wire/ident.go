package wire

import "time"

const (
	// identSlack is how far the identification of the next packet may be from the last
	// one, in either direction. Lost and reordered packets, the segments of a message
	// that the sender's kernel has segmented, and other packets that the same counter
	// numbers make it differ. The slack cannot be much larger: when one byte of a
	// packet of up to 4 KiB is damaged, the identification for which the ICRC is right
	// differs by 231 or more from the real one (586 or more up to 2 KiB). So such a
	// packet never fits.
	identSlack = 200
	// identIdleStep is the time since the last packet that widens the window by one: 250
	// in a millisecond, a rate that a sender of packets of 1 KiB reaches at 2 Gbit/s.
	// The number is arbitrary. It covers the random number that Linux adds to a shared
	// counter after idle time. That number is less than the clock ticks that have
	// passed, and a tick is at least a millisecond.
	identIdleStep = 4 * time.Microsecond
	// maxSegments is larger than every identification of a sender that numbers the
	// segments of each message from 0. A kernel segments a message into at most 64
	// packets, since Linux 6.9 into at most 128 (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// identWidening is the factor by which the window widens after an intact packet
	// that did not fit. Arbitrary. After widening five times, all packets fit.
	identWidening = 4
	// narrowAfter is how many packets in a row must fit a quarter of a widened window
	// before the window is halved. Arbitrary.
	narrowAfter = 1024
	// segmentingZeros is how often identification 0 must arrive before the sender
	// counts as one that numbers the segments of each message from 0. A socket that
	// counts its messages sends 0 only twice when the counter wraps around: in the
	// middle of one message, and at the beginning of the next.
	segmentingZeros = 3
	// maxMisfits is how many packets in a row may be dropped. A sender may choose its
	// identifications freely (RFC 6864, 4.1), so the third packet in a row is accepted.
	maxMisfits = 2
)

// An IdentWindow predicts the identifications of the IPv4 packets of a sender (RFC 791,
// 3.1), for one flow of one source port. Flow.Verify returns the identification with
// which the ICRC of a packet is right. If the prediction includes that identification,
// the packet is unlikely to be damaged. Linux numbers packets in three ways:
//
//   - A socket that is not connected sends 0, and 0, 1, 2 and so on for the segments
//     of one message. After 0 has arrived three times, no others fit.
//   - A socket that is connected counts its messages.
//   - Other packets, for example those of rxe, share a counter with all packets of the
//     host to the same address and with some to other addresses. The counter's steps
//     are irregular, and larger after idle time.
//
// A packet that does not fit is dropped, and the sender retransmits it. The
// retransmission, or the next packet, fits the dropped packet, so the window follows a
// sender whose counter has jumped. The zero value is a window for a new flow. It
// accepts the first packet with any identification.
type IdentWindow struct {
	last    identMark
	misfit  identMark // The last packet, if it did not fit the window.
	misfits uint8     // Number of packets in a row that did not fit the window.
	// Number of packets with identification 0 since the last one of maxSegments or
	// more, at most segmentingZeros.
	zeros      uint8
	started    bool
	extraWidth uint16 // Width of the window beyond identSlack, in the direction of counting.
	narrowFits uint16 // Consecutive packets that fitted a quarter of extraWidth.
}

// An identMark is the identification and the arrival time of a packet.
type identMark struct {
	id    uint16
	since time.Duration // The packet arrived after this time.
}

// Fits reports whether the sender of the flow may have given a packet this
// identification. The caller drops the packet if Fits reports false. The packet arrived
// between since and the result of now, on any monotonic clock. Fits calls now only if
// it needs the time.
func (w *IdentWindow) Fits(id uint16, since time.Duration, now func() time.Duration) bool {
	mark := identMark{id, since}
	switch {
	case !w.started:
		w.started = true
	case w.zeros == segmentingZeros && id < maxSegments, w.zeros < segmentingZeros && w.follows(id, &w.last, now):
		w.narrow(id - w.last.id)
	case w.misfits > 0 && w.follows(id, &w.misfit, now), w.misfits == maxMisfits:
		w.extraWidth = uint16(min((int(w.extraWidth)+identSlack)*identWidening, 1<<16-1))
		w.zeros, w.narrowFits = 0, 0
	default:
		w.misfits, w.misfit = w.misfits+1, mark
		return false
	}
	w.last, w.misfits = mark, 0
	switch {
	case id >= maxSegments:
		w.zeros = 0
	case id == 0 && w.zeros < segmentingZeros:
		w.zeros++
	}
	return true
}

// follows reports whether an identification fits that of the earlier packet before.
func (w *IdentWindow) follows(id uint16, before *identMark, now func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((now()-before.since)/identIdleStep, 1<<16))
}

// narrow narrows a widened window after narrowAfter packets that did not need the
// width.
func (w *IdentWindow) narrow(step uint16) {
	if w.extraWidth == 0 {
		return
	}
	if step+identSlack > w.extraWidth/4+2*identSlack {
		w.narrowFits = 0
	} else if w.narrowFits++; w.narrowFits == narrowAfter {
		w.extraWidth, w.narrowFits = w.extraWidth/2, 0
	}
}
