//go:build linux

package soft

const (
	// maxDelayedPackets is how many packets of the peer's are acknowledged at once at
	// most.
	maxDelayedPackets = 16
	// maxAckDelays is how often an acknowledgement is put off, in drives: some
	// ten microseconds of an owner that spins.
	maxAckDelays = 64
)

// ackDelay puts acknowledgements off while both sides talk: a peer that has got a
// reply is not waiting for one, and is spared a packet for each message. A peer
// that only sends waits for the acknowledgement, and gets it.
type ackDelay struct {
	ackedTo     uint64 // what comes before this sequence is acknowledged
	delayCount  int    // how often the present one was put off
	sentRequest bool   // a request went the other way since it became due
}

// acknowledge makes an acknowledgement due.
func (c *rcConn) scheduleAck() {
	if !c.ackDue {
		c.ackDue, c.delayCount, c.sentRequest = true, 0, false
	}
	c.schedule()
}

// ackNow makes one due that is not put off.
func (c *rcConn) ackNow() {
	c.scheduleAck()
	c.delayCount = maxAckDelays
}

// holds reports whether the acknowledgement is put off once more. An owner that
// may go to sleep keeps nothing back.
func (c *rcConn) delaysAck() bool {
	c.delayCount++
	return c.sentRequest && !c.demux.flushAll && c.delayCount < maxAckDelays && c.dataEnd-c.ackedTo < maxDelayedPackets && c.enoughCredits()
}

// ackSent: everything that was carried out so far is acknowledged.
func (c *rcConn) ackSent() { c.ackDue, c.ackedTo = false, c.dataEnd }
