package wire

import "time"

const (
	// The identifications of two packets usually differ by at most identSlack. After
	// damage to one byte, Flow.Verify fails or finds an identification that is wrong by
	// at least 231.
	identSlack = 200
	// During idle time, the window gets wider by one identification for every
	// identIdleStep. Other flows of the sender's host may use the same counter of
	// identifications. This step allows for 250 of their packets in a millisecond.
	// Arbitrary.
	identIdleStep = 4 * time.Microsecond
	// Linux cuts a message into at most this many segments (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// When the window accepts a packet that does not fit, it gets wider by this factor.
	// After four such packets, every packet fits. Arbitrary.
	identWidening = 4
	// After this many packets in a row that need at most a quarter of extraWidth,
	// extraWidth is halved. Arbitrary.
	narrowAfter = 1024
	// A sender that used identification 0 this many times is assumed to number segments
	// from 0. Other senders use 0 at most twice in a row.
	segmentingZeros = 3
	// At most this many packets in a row are dropped. After them the window accepts any
	// identification, because a sender is free to choose it (RFC 6864, 4.1).
	maxMisfits = 2
)

// An IdentWindow detects damaged IPv4 packets of one flow. From a damaged packet,
// Flow.Verify gets a wrong identification. A wrong identification seldom fits the earlier
// ones (RFC 791, 3.1). The zero value is a new window.
//
// Linux numbers packets in three ways:
//
//   - A socket that is not connected numbers the segments of each message from 0. After
//     three zeros, only identifications below maxSegments fit.
//   - A connected socket adds one for each message. The segments of a message have
//     consecutive identifications.
//   - Other packets, for example those of rxe, use a counter of the host. Its steps are
//     irregular, and larger after idle time.
//
// The caller drops a packet that does not fit. Then the sender sends the packet again.
// This time the packet fits, because the window also accepts identifications close to the
// dropped packet's.
type IdentWindow struct {
	last    identMark
	misfit  identMark // last packet that did not fit, if misfits is not 0
	misfits uint8     // packets in a row that did not fit
	// Number of packets with identification 0, at most segmentingZeros. An identification
	// of maxSegments or more resets it.
	zeros   uint8
	started bool
	// Number of identifications by which the window is wider than identSlack. The window
	// is wider only above the expected number, because identifications increase.
	extraWidth uint16
	// Packets in a row that needed at most a quarter of extraWidth.
	narrowFits uint16
}

// An identMark has the identification and the arrival time of a packet.
type identMark struct {
	id uint16
	// The packet arrived after this time.
	since time.Duration
}

// Fits reports whether the sender may have sent a packet with this identification. The
// packet arrived after the time in the parameter since. The function clock() returns the
// present time. Fits calls it only if it needs the time.
func (w *IdentWindow) Fits(id uint16, since time.Duration, clock func() time.Duration) bool {
	mark := identMark{id, since}
	switch {
	case !w.started:
		w.started = true
	case w.zeros == segmentingZeros && id < maxSegments, w.zeros < segmentingZeros && w.follows(id, &w.last, clock):
		w.narrow(id - w.last.id)
	case w.misfits > 0 && w.follows(id, &w.misfit, clock), w.misfits == maxMisfits:
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

// follows reports whether the identification may come after an earlier packet's.
func (w *IdentWindow) follows(id uint16, before *identMark, clock func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((clock()-before.since)/identIdleStep, 1<<16))
}

// narrow makes the window narrower if its extra width was not needed for some time.
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
