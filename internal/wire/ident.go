package wire

import "time"

const (
	// identSlack is how far the identification of the next packet may be from the last
	// one, in either direction. The slack is for lost and reordered packets, for the
	// segments of a message that the sender's system has segmented, and for other packets
	// that the same counter numbers. It can not be much larger: when one byte of a packet
	// of up to 4 KiB is damaged, the identification that solves the ICRC differs by 231
	// or more (586 or more up to 2 KiB), so such a packet never fits.
	identSlack = 200
	// identPace widens the window by one for each such time since the last packet: 250 in
	// a millisecond, which a sender of packets of 1 KiB reaches at 2 Gbit/s; arbitrary.
	// It covers the random number that Linux adds to a shared counter after idle time.
	// That number is below the ticks that have passed, and a tick is at least a
	// millisecond.
	identPace = 4 * time.Microsecond
	// identTrain bounds the identifications of a sender that numbers the segments of each
	// message from 0. A system segments a message into at most 64 packets, from Linux 6.9
	// on 128 (udp(7), UDP_SEGMENT).
	identTrain = 128
	// identWidening is the factor by which the window widens after a packet that did not
	// fit but was right; arbitrary. After widening five times, all packets fit.
	identWidening = 4
	// identCalm is how many packets in a row have to fit a quarter of a widened window
	// before it is halved; arbitrary.
	identCalm = 1024
	// identZeros is how often identification 0 has to arrive before the sender is taken
	// for one that numbers each message from 0. A socket that counts its messages sends 0
	// only twice when the counter wraps around: in the middle of one message, and at the
	// beginning of the next.
	identZeros = 3
	// identMisfits is how many packets in a row may be dropped. A sender may choose its
	// identifications freely (RFC 6864, 4.1), so the third packet in a row is accepted.
	identMisfits = 2
)

// An IdentWindow follows how a sender counts the identifications of its IPv4 packets
// (RFC 791, 3.1), for one flow of one source port. Flow.Verify returns the
// identification with which the ICRC of a packet is right. If the sender can be
// expected to use that identification, the packet is unlikely to be damaged. Linux
// has three ways to count:
//
//   - A socket that is not connected sends 0, and 0, 1, 2.. for the segments of one
//     message. As soon as 0 has come three times no others fit.
//   - A socket that is connected counts its messages.
//   - Other packets, those of rxe among them, share a counter with all packets of the
//     host to the same address, and with some to others. It steps irregularly, and
//     more so after idle time.
//
// A packet that does not fit is dropped, and the sender repeats it. The repetition,
// or the next packet, fits the dropped packet, so the window follows a sender whose
// counter has jumped. The zero value is a window for a new flow; it accepts the first
// packet with any identification.
type IdentWindow struct {
	last    identMark
	odd     identMark // the last packet, if it did not fit the window
	misfits uint8     // number of packets in a row that did not fit the window
	// packets with 0 since the last one of identTrain or more; at most identZeros
	zeros   uint8
	started bool
	more    uint16 // the width added to identSlack in the direction of counting
	calm    uint16 // consecutive packets that fitted a quarter of the width in more
}

// An identMark is the identification and the arrival time of a packet.
type identMark struct {
	id    uint16
	since time.Duration // the packet arrived after this time
}

// Fits reports whether the sender of the flow may have given a packet this
// identification. The packet arrived between since and the result of now, on any
// monotonic clock. Fits calls now only if the time matters. The caller drops a packet
// for which Fits reports false.
func (w *IdentWindow) Fits(id uint16, since time.Duration, now func() time.Duration) bool {
	mark := identMark{id, since}
	switch {
	case !w.started:
		w.started = true
	case w.zeros == identZeros && id < identTrain, w.zeros < identZeros && w.follows(id, &w.last, now):
		w.relax(id - w.last.id)
	case w.misfits > 0 && w.follows(id, &w.odd, now), w.misfits == identMisfits:
		w.more = uint16(min((int(w.more)+identSlack)*identWidening, 1<<16-1))
		w.zeros, w.calm = 0, 0
	default:
		w.misfits, w.odd = w.misfits+1, mark
		return false
	}
	w.last, w.misfits = mark, 0
	switch {
	case id >= identTrain:
		w.zeros = 0
	case id == 0 && w.zeros < identZeros:
		w.zeros++
	}
	return true
}

// follows reports whether an identification fits the earlier one in before.
func (w *IdentWindow) follows(id uint16, before *identMark, now func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.more)+int(min((now()-before.since)/identPace, 1<<16))
}

// relax narrows a widened window after identCalm packets that did not need the width.
func (w *IdentWindow) relax(step uint16) {
	if w.more == 0 {
		return
	}
	if step+identSlack > w.more/4+2*identSlack {
		w.calm = 0
	} else if w.calm++; w.calm == identCalm {
		w.more, w.calm = w.more/2, 0
	}
}
