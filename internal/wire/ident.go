package wire

import "time"

const (
	// identSlack is how far from the last identification that of the next packet may
	// be, in either direction: for packets that are lost or overtaken, for the
	// segments of a message that the sender's system has cut up, and for what else a
	// counter is used for. It is as large as it can be. When one byte of a packet of
	// up to 4 KiB is changed, an identification can solve the ICRC that differs by 231
	// or more (586 up to 2 KiB), so such an error never fits.
	identSlack = 200
	// identPace is how much time allows for one more: 250 in a millisecond, for which
	// a sender of packets of 1 KiB needs 2 Gbit/s; arbitrary. It covers what Linux
	// adds to a shared counter after idle time: a random number below the ticks that
	// have passed, each of at least a millisecond.
	identPace = 4 * time.Microsecond
	// identTrain bounds the identifications of a sender that begins each message with
	// 0: a system cuts one up into 64 packets at most, from Linux 6.9 on 128 (udp(7),
	// UDP_SEGMENT).
	identTrain = 128
	// identWidening is by how much the window widens after a packet that did not fit
	// and was right nevertheless; arbitrary. After five times all packets fit.
	identWidening = 4
	// identCalm is how many packets have to fit a quarter of a window that was widened
	// for it to be halved; arbitrary.
	identCalm = 1024
	// identZeros is how often 0 has to come for a sender to be taken for one that
	// begins with it. From a socket that counts, it comes twice where it wraps around:
	// in the middle of a message, and at the beginning of the next.
	identZeros = 3
	// identMisfits is how many packets in a row may be dropped. A sender may count as
	// it likes (RFC 6864, 4.1), and the third packet in a row is taken.
	identMisfits = 2
)

// An IdentWindow follows how a sender counts the identifications of its IPv4 packets
// (RFC 791, 3.1), for one flow of one source port. Verify of a Flow tells the
// identification with which the ICRC of a packet is right; that it is one that the
// sender can be expected to use makes it improbable that the packet was damaged.
// Linux has three ways to count:
//
//   - A socket that is not connected sends 0, and 0, 1, 2.. for the segments of one
//     message. As soon as 0 has come three times no others fit.
//   - A socket that is connected counts its messages.
//   - Other packets, those of rxe among them, share a counter with all packets of the
//     host to the same address, and with some to others. It steps irregularly, and
//     more so after idle time.
//
// A packet that does not fit is dropped, and the sender repeats it. Its repetition, or
// the next packet, fits the one that was dropped: so the window follows a sender that
// has jumped. The zero value is for a flow of which nothing is known, whose first
// packet fits whatever it has.
type IdentWindow struct {
	last    identMark
	odd     identMark // the last packet, if it did not fit
	misfits uint8     // packets in a row that did not fit
	zeros   uint8     // packets with 0, while all are below identTrain; at most identZeros
	started bool
	more    uint16 // what is added to identSlack in front
	calm    uint16 // packets in a row that would have fitted a quarter of that
}

// An identMark is what is known of a packet.
type identMark struct {
	id    uint16
	since time.Duration // the packet came after this
}

// Fits reports whether the sender of the flow may have given a packet this
// identification. The packet came after since, and before the time that now tells, on
// any clock that does not go back; now is called only if that matters. A packet for
// which it reports false is to be dropped.
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

// follows reports whether an identification fits one that came before it.
func (w *IdentWindow) follows(id uint16, before *identMark, now func() time.Duration) bool {
	const narrow = 2 * identSlack
	distance := int(id - before.id + identSlack)
	return distance <= narrow || distance <= narrow+int(w.more)+int(min((now()-before.since)/identPace, 1<<16))
}

// relax narrows a window that was widened, when it has not been used for a while.
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
