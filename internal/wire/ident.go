package wire

import "time"

const (
	// identSlack is the largest usual distance between the identification of a packet and
	// that of the previous packet, in either direction. Distances are larger than one for
	// several reasons: packets are lost or reordered, the sender's kernel has cut a
	// message into segments, or the counter of the sender also numbers packets of other
	// flows.
	//
	// The number must not be much larger, so that damaged packets do not fit. If one byte
	// of a packet is damaged, the identification that Flow.Verify finds is wrong. It
	// differs from the sent one by 231 or more in packets of up to 4 KiB, and by 586 or
	// more in packets of up to 2 KiB. Both distances are larger than identSlack, so such
	// a packet does not fit.
	identSlack = 200
	// The window gets wider by one for every identIdleStep of idle time, because several
	// flows may share a counter. Linux adds a random number to such a counter after idle
	// time. The random number is less than the number of clock ticks in the idle time,
	// and a tick is at least a millisecond. So it adds at most one for each millisecond.
	// Packets of other flows also increase the counter: at 2 Gbit/s, an arbitrary rate,
	// packets of 1 KiB increase it by 250 in a millisecond. Together this is at most 251
	// in a millisecond, or about one in 4 µs.
	identIdleStep = 4 * time.Microsecond
	// maxSegments is larger than every identification of a sender that numbers the
	// segments of each message from 0. A Linux kernel cuts a message into at most 64
	// segments, or at most 128 since Linux 6.9 (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// identWidening is the factor by which the window gets wider when Fits accepts a
	// packet that did not fit the window: see misfit and maxMisfits. Four such packets
	// widen a window of the smallest width to the maximum, in which every packet fits.
	// The factor is arbitrary.
	identWidening = 4
	// narrowAfter is the number of packets after which a wide window gets narrower. If
	// this number of packets in a row would also fit a window with a quarter of the width
	// that the window has in addition to identSlack, this additional width is halved. The
	// number is arbitrary.
	narrowAfter = 1024
	// After segmentingZeros packets with identification 0, the IdentWindow assumes that
	// the sender numbers the segments of each message from 0. Such a sender sends the
	// identification 0 with every message. Other senders send it seldom. For example, a
	// connected socket sends 0 at most twice in a row, when its counter overflows: once
	// in the middle of a message, and once at the beginning of the next message.
	segmentingZeros = 3
	// maxMisfits is the maximum number of packets in a row that are dropped because they
	// do not fit. The packet after them is accepted with any identification, because a
	// sender may choose its identifications freely (RFC 6864, 4.1).
	maxMisfits = 2
)

// An IdentWindow decides whether the sender of an IPv4 packet may have sent the packet
// with a certain identification (RFC 791, 3.1). Each flow from one source port has an
// IdentWindow of its own. The caller gets the identification from Flow.Verify, which
// computes it from the ICRC. If the packet is damaged, the computed identification is
// wrong. So if the identification fits those of earlier packets, the packet is probably
// not damaged.
//
// Linux numbers packets in three ways:
//
//   - A socket that is not connected sends a message of one packet with the
//     identification 0, and the segments of a longer message with 0, 1, 2 and so on.
//     After 0 has arrived three times, no identification of maxSegments or more fits.
//   - A connected socket begins each message with an identification that is larger by one
//     than the first identification of the message before. The segments of a message have
//     consecutive identifications.
//   - Other packets, for example those of rxe, are numbered by a counter of the host. All
//     packets to the same address use the same counter, and so do packets to some other
//     addresses. The steps of that counter are irregular, and larger after idle time.
//
// The caller drops a packet that does not fit, and the sender sends it again. The
// IdentWindow stores the identification of the dropped packet. The packet that the sender
// sends again is compared with this identification too, and fits. So the window follows a
// sender whose counter has jumped. The zero value is a window for a new flow. The first
// packet of a flow fits with any identification.
type IdentWindow struct {
	last    identMark
	misfit  identMark // The last packet that did not fit. Valid if misfits is not 0.
	misfits uint8     // Number of packets in a row that did not fit.
	// zeros is the number of packets with identification 0 since the last packet with an
	// identification of maxSegments or more. At segmentingZeros the counting stops.
	zeros   uint8
	started bool
	// extraWidth is the width of the window in addition to identSlack on both sides. It
	// extends the window only upwards, because identifications increase.
	extraWidth uint16
	// narrowFits is the number of packets in a row that would also fit a window with a
	// quarter of extraWidth.
	narrowFits uint16
}

// An identMark has the identification and the arrival time of a packet.
type identMark struct {
	id uint16
	// A time at which the caller read the socket and did not get the packet. The packet
	// arrived after this time.
	since time.Duration
}

// Fits reports whether the sender of the flow may have sent a packet with the
// identification id. If the result is false, the caller drops the packet. The parameter
// since is a time at which the caller read the socket and did not get the packet, so the
// packet arrived after that time. The function clock returns the present time of the same
// clock. Reading a clock takes time, so Fits calls the function only if the result
// depends on the time.
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

// follows reports whether a packet with the identification id may come after an earlier
// packet of the flow. The parameter before has the identification and the time of that
// earlier packet.
func (w *IdentWindow) follows(id uint16, before *identMark, clock func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((clock()-before.since)/identIdleStep, 1<<16))
}

// narrow is called for each packet that Fits accepts without making the window wider.
// After narrowAfter packets in a row that would also fit a window with a quarter of the
// additional width, narrow halves that width. The parameter step is the identification of
// the packet minus the identification of the previous packet.
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
