package wire

import "time"

const (
	// identSlack is the largest usual distance of an identification from the previous
	// one, up or down. Distances above one come from loss, reordering, segmentation, and
	// other flows with the same counter.
	//
	// The number is small enough to detect damage. If one byte is damaged, the
	// identification from Flow.Verify is wrong by at least 231 in packets of up to 4
	// KiB, and by at least 586 up to 2 KiB.
	identSlack = 200
	// The window gets wider by one for every identIdleStep of idle time, for two
	// reasons:
	//
	//   - Linux adds up to one for each millisecond of idle time.
	//   - Other flows may use the same counter. At 2 Gbit/s (arbitrary), packets of 1
	//     KiB add 250 in a millisecond.
	//
	// Together this is about one in 4 µs.
	identIdleStep = 4 * time.Microsecond
	// maxSegments is the largest number of segments into which Linux cuts a message
	// (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// identWidening is the factor by which a misfit that is accepted widens the window.
	// After four of them every packet fits. Arbitrary.
	identWidening = 4
	// narrowAfter is the number of packets in a row that make a wide window narrower:
	// they would fit a quarter of its additional width. Arbitrary.
	narrowAfter = 1024
	// After this number of packets with identification 0, the sender is assumed to
	// number the segments of each message from 0. Other senders send 0 at most twice in
	// a row, when a counter overflows.
	segmentingZeros = 3
	// maxMisfits is the maximum number of misfits in a row that are dropped. The next
	// one is accepted, because a sender may choose any identification (RFC 6864, 4.1).
	maxMisfits = 2
)

// An IdentWindow detects damaged IPv4 packets by their identification (RFC 791, 3.1), as
// Flow.Verify has computed it. A wrong identification seldom fits those of earlier
// packets. Each flow has its own IdentWindow.
//
// Linux numbers packets in three ways:
//
//   - An unconnected socket numbers the segments of each message 0, 1, 2 and so on.
//     After three zeros, no identification of maxSegments or more fits.
//   - A connected socket adds one for each message. The segments of a message have
//     consecutive identifications.
//   - Other packets, for example those of rxe, are numbered by a counter of the host,
//     which flows share. Its steps are irregular, and larger after idle time.
//
// The caller drops a packet that does not fit, but the window stores its identification.
// So the packet fits when the sender sends it again, even if the sender's counter has
// jumped.
//
// The zero value is a new window. The first packet always fits.
type IdentWindow struct {
	last    identMark
	misfit  identMark // The last packet that did not fit. Valid if misfits is not 0.
	misfits uint8     // Number of packets in a row that did not fit.
	// zeros counts packets with identification 0 since the last one of maxSegments or
	// more, up to segmentingZeros.
	zeros   uint8
	started bool
	// extraWidth is the width of the window above identSlack. It extends the window only
	// upwards, because identifications increase.
	extraWidth uint16
	// narrowFits is the number of packets in a row that would fit a quarter of
	// extraWidth.
	narrowFits uint16
}

// An identMark has the identification and the arrival time of a packet.
type identMark struct {
	id uint16
	// A time when the packet was not in the socket yet.
	since time.Duration
}

// Fits reports whether the sender may have sent a packet with the identification id. If
// not, the caller drops the packet. The parameter since is a time when the packet was
// not in the socket yet. Fits calls clock, which returns the present time, only when
// needed.
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

// follows reports whether a packet with the identification id may come after the packet
// that is described by the parameter before.
func (w *IdentWindow) follows(id uint16, before *identMark, clock func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((clock()-before.since)/identIdleStep, 1<<16))
}

// narrow counts an accepted packet. After narrowAfter packets that would fit a quarter
// of the additional width, it halves that width. The parameter step is the distance from
// the previous identification.
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
