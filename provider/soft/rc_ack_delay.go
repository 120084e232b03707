//go:build linux

package soft

const (
	// maxDelayedPackets is how many packets of the peer are acknowledged together at
	// most. It is arbitrary.
	maxDelayedPackets = 16
	// maxAckDelays is how many drives delay an acknowledgement. This is some ten
	// microseconds if the owner of the shard polls without a pause.
	maxAckDelays = 64
)

// ackDelay decides how long an acknowledgement is delayed. When both sides send
// messages, the peer that got a reply does not wait for the acknowledgement of its own
// message. So one acknowledgement covers several messages. A peer that gets no replies
// is acknowledged without delay.
type ackDelay struct {
	ackedTo     uint64 // sequences below it were acknowledged
	delayCount  int    // drives in which the due acknowledgement was delayed
	sentRequest bool   // a request was sent since the acknowledgement became due
}

// scheduleAck makes an acknowledgement due.
func (c *rcConn) scheduleAck() {
	if !c.ackDue {
		c.ackDue, c.delayCount, c.sentRequest = true, 0, false
	}
	c.schedule()
}

// ackNow makes an acknowledgement due that is not delayed.
func (c *rcConn) ackNow() {
	c.scheduleAck()
	c.delayCount = maxAckDelays
}

// delaysAck counts a drive, and reports whether the acknowledgement is delayed further.
// It is not if the owner of the shard may go to sleep.
func (c *rcConn) delaysAck() bool {
	c.delayCount++
	return c.sentRequest && !c.demux.flushAll && c.delayCount < maxAckDelays && c.dataEnd-c.ackedTo < maxDelayedPackets && c.enoughCredits()
}

// ackSent records that all executed requests were acknowledged.
func (c *rcConn) ackSent() { c.ackDue, c.ackedTo = false, c.dataEnd }
