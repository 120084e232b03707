//go:build linux

package soft

const (
	// maxDelayedPackets is the largest number of packets of the peer for which one
	// acknowledgement is delayed. It is arbitrary.
	maxDelayedPackets = 16
	// maxAckDelays is the number of calls of drive during which an acknowledgement can
	// be delayed. This is some ten microseconds if the owner of the shard polls without
	// a pause.
	maxAckDelays = 64
)

// ackDelay decides how long an acknowledgement is delayed. When both sides send
// messages, a peer that gets a reply does not need the acknowledgement of its own
// message soon. So one acknowledgement covers several messages. A peer that gets no
// replies is acknowledged without delay.
type ackDelay struct {
	ackedTo uint64 // all sequences below ackedTo were acknowledged
	// number of calls of drive during which the due acknowledgement was delayed
	delayCount  int
	sentRequest bool // true if a request was sent since the acknowledgement became due
}

// scheduleAck makes an acknowledgement due.
func (c *rcConn) scheduleAck() {
	if !c.ackDue {
		c.ackDue, c.delayCount, c.sentRequest = true, 0, false
	}
	c.schedule()
}

// ackNow makes an acknowledgement due and prevents its delay.
func (c *rcConn) ackNow() {
	c.scheduleAck()
	c.delayCount = maxAckDelays
}

// delaysAck counts a call of drive, and reports whether the acknowledgement is delayed
// further. It returns false if the owner of the shard may go to sleep.
func (c *rcConn) delaysAck() bool {
	c.delayCount++
	return c.sentRequest && !c.demux.flushAll && c.delayCount < maxAckDelays && c.dataEnd-c.ackedTo < maxDelayedPackets && c.enoughCredits()
}

// ackSent records that all executed requests were acknowledged.
func (c *rcConn) ackSent() { c.ackDue, c.ackedTo = false, c.dataEnd }
