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

// ackDelay puts acknowledgements off while both sides talk: a peer that has got a
// reply is not waiting for one, and is spared a packet for each message. A peer
// that only sends waits for the acknowledgement, and gets it.
type ackDelay struct {
	ackedTo     uint64 // what comes before this sequence is acknowledged
	postponed   int    // how often the present one was put off
	sentRequest bool   // a request went the other way since it became due
}

// acknowledge makes an acknowledgement due.
func (c *rcConn) scheduleAck() {
	if !c.ackDue {
		c.ackDue, c.postponed, c.sentRequest = true, 0, false
	}
	c.schedule()
}

// ackNow makes one due that is not put off.
func (c *rcConn) ackNow() {
	c.scheduleAck()
	c.postponed = ackPatience
}

// holds reports whether the acknowledgement is put off once more. An owner that
// may go to sleep keeps nothing back.
func (c *rcConn) delaysAck() bool {
	c.postponed++
	return c.sentRequest && !c.demux.flushAll && c.postponed < ackPatience && c.afterWrite-c.ackedTo < ackBurst && c.enoughCredits()
}

// ackSent: everything that was carried out so far is acknowledged.
func (c *rcConn) ackSent() { c.ackDue, c.ackedTo = false, c.afterWrite }
