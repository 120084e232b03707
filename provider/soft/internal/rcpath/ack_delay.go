//go:build linux

package rcpath

const (
	// maxDelayedPackets is how many packets one delayed acknowledgement may cover.
	// Arbitrary.
	maxDelayedPackets = 16
	// maxAckDelays limits the delay of an acknowledgement, in calls of shard.drive().
	// With constant polling, the limit is about ten microseconds.
	maxAckDelays = 64
)

// ackState says whether the peer waits for an acknowledgement of its SENDs and WRITEs.
type ackState uint8

const (
	// ackNotDue: no acknowledgement is due. This is the state at first, and after each
	// acknowledgement or NAK.
	ackNotDue ackState = iota
	// ackDue: a request of the peer has asked for an acknowledgement. This call of
	// shard.drive() sends it, or the next one if turns are short.
	ackDue
	// ackDelayed: like ackDue, but the acknowledgement may be delayed. This state
	// follows ackDue when this side sends a request, which is probably a reply.
	ackDelayed
)

// An ackDelay decides when an acknowledgement is sent. After a reply, the
// acknowledgement is delayed, so that it can cover several messages. The zero value is
// ready to use.
type ackDelay struct {
	state ackState
	// number of calls of shard.drive() for which the acknowledgement was delayed
	drives  int
	ackedTo uint64 // all sequences of the peer below ackedTo were acknowledged
}

// due reports whether an acknowledgement has to be sent, at once or after a delay.
func (a *ackDelay) due() bool { return a.state != ackNotDue }

// schedule makes an acknowledgement due.
func (a *ackDelay) schedule() {
	if a.state == ackNotDue {
		a.state, a.drives = ackDue, 0
	}
}

// scheduleNow makes an acknowledgement due, without a delay.
func (a *ackDelay) scheduleNow() {
	a.schedule()
	a.drives = maxAckDelays
}

// requestSent is called after this side has sent a request. From then on, a due
// acknowledgement may be delayed.
func (a *ackDelay) requestSent() {
	if a.state == ackDue {
		a.state = ackDelayed
	}
}

// delay reports whether a due acknowledgement may wait for a later call of
// shard.drive(). It also counts the delays. The parameter end is the sequence after the
// last executed packet.
func (a *ackDelay) delay(end uint64) bool {
	a.drives++
	return a.state == ackDelayed && a.drives < maxAckDelays && end-a.ackedTo < maxDelayedPackets
}

// sent records that all sequences below end were acknowledged.
func (a *ackDelay) sent(end uint64) { a.state, a.ackedTo = ackNotDue, end }

// cancel is called after a NAK was sent. No acknowledgement is due then, because the NAK
// also acknowledges all packets before it.
func (a *ackDelay) cancel() { a.state = ackNotDue }
