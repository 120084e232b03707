package wire

import "time"

const (
	// identSlack is by how much the identification of the next packet may differ from the
	// last one, in either direction. Several things cause a difference: lost and
	// reordered packets, the segments of a message that the sender's kernel has cut, and
	// other packets that the same counter numbers.
	//
	// A much larger value would let damaged packets pass. If one byte of a packet is
	// damaged, the identification for which the ICRC is correct differs from the real one
	// by 231 or more for packets of up to 4 KiB, and by 586 or more for packets of up to
	// 2 KiB. With 200, such a packet never fits.
	identSlack = 200
	// identIdleStep is a time. For each such time since the last packet, the window gets
	// wider by one. Linux adds a random number to a shared counter after idle time. That
	// number is less than the number of clock ticks that have passed, and a tick takes at
	// least a millisecond. A step of 4 µs covers that and the packets of other flows: 250
	// packets in a millisecond are 2 Gbit/s with packets of 1 KiB. The number is
	// arbitrary.
	identIdleStep = 4 * time.Microsecond
	// maxSegments is larger than every identification of a sender that numbers the
	// segments of each message from 0. A kernel cuts a message into at most 64 segments,
	// and since Linux 6.9 into at most 128 (udp(7), UDP_SEGMENT).
	maxSegments = 128
	// identWidening is the factor by which the window gets wider after an intact packet
	// that did not fit. It is arbitrary. After five such packets, every packet fits.
	identWidening = 4
	// narrowAfter is a number of packets. If so many packets in a row fit a quarter of
	// the additional width, that width is halved. It is arbitrary.
	narrowAfter = 1024
	// segmentingZeros is how often the identification 0 must arrive before the sender
	// counts as one that numbers the segments of each message from 0. Other senders
	// seldom send 0: a connected socket sends 0 only twice when its counter overflows,
	// once in the middle of a message and once at the beginning of the next message.
	segmentingZeros = 3
	// maxMisfits is the largest number of packets in a row that are dropped because they
	// do not fit. A sender may choose its identifications freely (RFC 6864, 4.1), so the
	// next packet is accepted whatever its identification is.
	maxMisfits = 2
)

// An IdentWindow decides whether the sender of an IPv4 packet may have given it a certain
// identification (RFC 791, 3.1). It is for one flow from one source port. Flow.Verify
// returns the identification with which the ICRC of a packet is correct. If that
// identification fits the earlier packets of the flow, the packet is unlikely to be
// damaged.
//
// Linux numbers packets in three ways:
//
//   - A socket that is not connected sends 0, or 0, 1, 2 and so on for the segments of
//     one message. After 0 has arrived three times, no identification of maxSegments or
//     more fits.
//   - A connected socket counts its messages.
//   - Other packets, for example those of rxe, are numbered by a counter that the host
//     uses for all packets to the same address, and for some to other addresses. The
//     steps of that counter are irregular, and larger after idle time.
//
// A packet that does not fit is dropped, and the sender sends it again. That second
// packet is compared with the dropped one too, and fits. So the window follows a sender
// whose counter has jumped. The zero value is a window for a new flow, whose first packet
// fits with any identification.
type IdentWindow struct {
	last    identMark
	misfit  identMark // the last packet, if it did not fit
	misfits uint8     // number of packets in a row that did not fit
	// zeros is the number of packets with identification 0 since the last packet with an
	// identification of maxSegments or more. It stops at segmentingZeros.
	zeros      uint8
	started    bool
	extraWidth uint16 // width of the window beyond identSlack, in the direction of counting
	// number of packets in a row that fitted a quarter of extraWidth
	narrowFits uint16
}

// An identMark has the identification and the arrival time of a packet.
type identMark struct {
	id    uint16
	since time.Duration // The packet arrived after this time.
}

// Fits reports whether the sender of the flow may have given a packet the identification
// id. If not, the caller drops the packet. The packet arrived after the time since. The
// function clock returns the present time of the same monotonic clock. Fits calls that
// function only if it needs the time.
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

// follows reports whether the identification id fits an earlier packet of the flow.
func (w *IdentWindow) follows(id uint16, before *identMark, clock func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.extraWidth)+int(min((clock()-before.since)/identIdleStep, 1<<16))
}

// narrow makes a wide window narrower after narrowAfter packets in a row that did not
// need the width. The parameter step is the distance of the identification from the one
// before it.
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
