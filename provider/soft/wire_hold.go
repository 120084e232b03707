//go:build linux

package soft

const (
	// ackBurst is how many packets of the peer's are acknowledged at once at
	// most.
	ackBurst = 16
	// ackPatience is how often an acknowledgement is put off, in drives: some
	// ten microseconds of an owner that spins.
	ackPatience = 64
)

// ackHold puts acknowledgements off while both sides talk: a peer that has got a
// reply is not waiting for one, and is spared a packet for each message. A peer
// that only sends waits for the acknowledgement, and gets it.
type ackHold struct {
	told    uint64 // what comes before this sequence is acknowledged
	held    int    // how often the present one was put off
	replied bool   // a request went the other way since it became due
}

// acknowledge makes an acknowledgement due.
func (l *wireLink) acknowledge() {
	if !l.ackDue {
		l.ackDue, l.held, l.replied = true, 0, false
	}
	l.schedule()
}

// acknowledgeNow makes one due that is not put off.
func (l *wireLink) acknowledgeNow() {
	l.acknowledge()
	l.held = ackPatience
}

// holds reports whether the acknowledgement is put off once more. An owner that
// may go to sleep keeps nothing back.
func (l *wireLink) holds() bool {
	l.held++
	return l.replied && !l.s.pressing && l.held < ackPatience && l.plain-l.told < ackBurst && l.ample()
}

// ackSent: everything that was carried out so far is acknowledged.
func (l *wireLink) ackSent() { l.ackDue, l.told = false, l.plain }
