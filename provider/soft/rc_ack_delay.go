//go:build linux

package soft

const (
	// maxDelayedPackets is the largest number of packets that one delayed
	// acknowledgement covers. It is arbitrary.
	maxDelayedPackets = 16
	// maxAckDelays is the largest number of calls of drive for which an acknowledgement
	// is delayed: about ten microseconds if the owner polls without a pause.
	maxAckDelays = 64
)

// ackState is the state of the acknowledgement of the peer's SENDs and WRITEs.
type ackState uint8

const (
	// ackNotDue: the peer waits for no acknowledgement. A connection begins in this
	// state, and returns to it when an acknowledgement or a NAK is sent. A request that
	// asks for an acknowledgement ends the state.
	ackNotDue ackState = iota
	// ackDue: the next call of drive sends an acknowledgement. The state is entered from
	// ackNotDue when a request that asks for one is executed or repeated.
	ackDue
	// ackDelayed: an acknowledgement is due, and may be delayed. The state is entered
	// from ackDue when this side sends a request. That request is probably the reply to
	// the peer's message, so the acknowledgement is not urgent.
	ackDelayed
)

// ackDelay decides how long an acknowledgement is delayed. A peer that gets a reply does
// not need the acknowledgement soon, so one acknowledgement can cover several messages.
// A peer without replies is acknowledged at once. The zero value is ready to use.
type ackDelay struct {
	state ackState
	// number of calls of drive during which the due acknowledgement was delayed
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

// scheduleNow makes an acknowledgement due and prevents its delay.
func (a *ackDelay) scheduleNow() {
	a.schedule()
	a.drives = maxAckDelays
}

// requestSent is called when this side has sent a request. From now on, an
// acknowledgement that is due may be delayed.
func (a *ackDelay) requestSent() {
	if a.state == ackDue {
		a.state = ackDelayed
	}
}

// delay is called once in each call of drive in which an acknowledgement is due. It
// reports whether the acknowledgement may be delayed until a later call. All request
// packets with sequences below the parameter end were executed.
func (a *ackDelay) delay(end uint64) bool {
	a.drives++
	return a.state == ackDelayed && a.drives < maxAckDelays && end-a.ackedTo < maxDelayedPackets
}

// sent records that all sequences below the parameter end were acknowledged.
func (a *ackDelay) sent(end uint64) { a.state, a.ackedTo = ackNotDue, end }

// cancel records that no acknowledgement is due any more. It is called when a NAK was
// sent, because a NAK also acknowledges the requests before the refused one.
func (a *ackDelay) cancel() { a.state = ackNotDue }
