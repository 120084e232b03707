//go:build linux

package soft

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
	// ackNotDue: the peer waits for no acknowledgement. This is the state at first and
	// after each acknowledgement or NAK.
	ackNotDue ackState = iota
	// ackDue: the next call of shard.drive() sends an acknowledgement. The peer has
	// asked for it in a request that was executed or repeated.
	ackDue
	// ackDelayed: the acknowledgement may be delayed. In the state ackDue this side has
	// sent a request, which is probably a reply.
	ackDelayed
)

// ackDelay delays acknowledgements after a reply. Then one acknowledgement can cover
// several messages. The zero value is ready to use.
type ackDelay struct {
	state ackState
	// number of calls of shard.drive() for which the acknowledgement was delayed
	drives  int
	ackedTo uint64 // all sequences of the peer below ackedTo were acknowledged
}

// due reports whether an acknowledgement has to be sent, now or later.
func (a *ackDelay) due() bool { return a.state != ackNotDue }

// schedule makes an acknowledgement due.
func (a *ackDelay) schedule() {
	if a.state == ackNotDue {
		a.state, a.drives = ackDue, 0
	}
}

// scheduleNow makes an acknowledgement due that is not delayed.
func (a *ackDelay) scheduleNow() {
	a.schedule()
	a.drives = maxAckDelays
}

// requestSent is called after this side has sent a request.
func (a *ackDelay) requestSent() {
	if a.state == ackDue {
		a.state = ackDelayed
	}
}

// delay counts a call of shard.drive(). It reports whether the due acknowledgement may
// wait for a later call. All packets before the sequence end were executed.
func (a *ackDelay) delay(end uint64) bool {
	a.drives++
	return a.state == ackDelayed && a.drives < maxAckDelays && end-a.ackedTo < maxDelayedPackets
}

// sent records that all sequences below end were acknowledged.
func (a *ackDelay) sent(end uint64) { a.state, a.ackedTo = ackNotDue, end }

// cancel is called when a NAK was sent, which is also an acknowledgement.
func (a *ackDelay) cancel() { a.state = ackNotDue }
