package wire

import "time"

const (
	// identSlack is the largest usual distance between the identifications of two
	// packets, up or down. One damaged byte causes a distance of at least 231,
	// or an error of Flow.Verify.
	identSlack = 200
	// The window gets wider by one for every identIdleStep of idle time. Meanwhile the
	// sender's host may count 250 other packets in a millisecond (arbitrary).
	identIdleStep = 4 * time.Microsecond
	// maxSegments is the largest number of segments into which Linux cuts a message
	// (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// identWidening is the factor by which the window gets wider when a packet that does
	// not fit is accepted. Arbitrary. After four such packets every packet fits.
	identWidening = 4
	// extraWidth is halved after narrowAfter packets in a row that need at most a quarter
	// of extraWidth. Arbitrary.
	narrowAfter = 1024
	// A sender of this many identifications 0 is assumed to number segments from 0.
	// Other senders use 0 at most twice in a row.
	segmentingZeros = 3
	// At most maxMisfits packets in a row are dropped, because senders may choose any
	// identification (RFC 6864, 4.1).
	maxMisfits = 2
)

// An IdentWindow detects damaged IPv4 packets of one flow. In a damaged packet, the
// identification from Flow.Verify is wrong. A wrong identification seldom fits the
// earlier identifications (RFC 791, 3.1). The zero value is a new window.
//
// Linux numbers packets in three ways:
//
//   - A socket that is not connected numbers the segments of each message from 0. After
//     three zeros, no identification of maxSegments or more fits.
//   - A connected socket adds one for each message. The segments of a message have
//     consecutive identifications.
//   - Other packets, for example those of rxe, use a counter of the host. Its steps are
//     irregular, and larger after idle time.
//
// The caller drops a packet that does not fit. The packet fits when it is sent again,
// because the window then accepts identifications close to the dropped packet's.
type IdentWindow struct {
	last    identMark
	misfit  identMark // The last packet that did not fit. Valid if the next field is not 0.
	misfits uint8     // Number of packets in a row that did not fit.
	// zeros counts packets with identification 0, up to segmentingZeros. An
	// identification of maxSegments or more sets the field to 0.
	zeros   uint8
	started bool
	// extraWidth is the width of the window above identSlack. It extends the window only
	// upwards, because identifications increase.
	extraWidth uint16
	// narrowFits is the number of packets in a row that needed at most a quarter of
	// extraWidth.
	narrowFits uint16
}

// An identMark has the identification and the arrival time of a packet.
type identMark struct {
	id uint16
	// The packet arrived in the socket after this time.
	since time.Duration
}

// Fits reports whether the sender may have sent a packet with this identification. The
// packet arrived after the time in the parameter since. The function clock() returns the
// present time.
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

// follows reports whether a packet with this identification may come after a packet with
// the given mark.
func (w *IdentWindow) follows(id uint16, before *identMark, clock func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((clock()-before.since)/identIdleStep, 1<<16))
}

// narrow halves extraWidth after narrowAfter packets in a row that need at most a
// quarter of extraWidth.
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
