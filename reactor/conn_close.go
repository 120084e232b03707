package reactor

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A connState is the state of a connection, as the loop sees it. The application sees a
// ConnState: see coarse(). Conn.stateTimer measures the time limits.
type connState uint8

// The states, in the order in which a connection passes through them.
const (
	// stateDialing: the peer's address and route are being resolved, or the ID of an
	// accepted request is moved to the loop. makeQP leads to stateConnecting. A failure
	// leads to stateOpenFailed.
	//
	// Config.Limits.ConnectTimeout or DialOptions.Timeout limits stateDialing and
	// stateConnecting together.
	stateDialing connState = iota

	// stateConnecting: the connection request was sent or accepted. Received messages
	// are held. cm.Established leads to stateOpen. A failure or the time limit leads to
	// stateOpenFailed.
	stateConnecting

	// stateOpenFailed: opening has failed with the error in closing.reason. The connection
	// may wait for the events of its device, for at most disconnectTimeout. Then
	// failToOpen calls OnDialError or OnAcceptError.
	stateOpenFailed

	// stateOpen: OnOpen was called, and the application may send. Close leads to
	// stateDraining; Abort, a failure and cm.Disconnected lead to stateCloseBegun. There is
	// no time limit, except Limits.StopTimeout after OnStop.
	stateOpen

	// stateDraining: Close was called, and sends are unconfirmed. Received messages are
	// discarded. The last confirmation, a failure, cm.Disconnected or the end of
	// Config.Limits.DrainTimeout leads to stateCloseBegun.
	stateDraining

	// stateCloseBegun: closing.reason has the reason. Messages that were received are
	// delivered, unless the application has called Close or Abort, or a time limit
	// is over. The next step chooses one of the next three states.
	stateCloseBegun

	// stateAwaitingDisconnected: the connection waits for an event that may be the true
	// reason for its end:
	//
	//   - An event of the device: see awaitsDeviceEvents.
	//   - cm.Disconnected, after a request has failed with a provisionalCause.
	//
	// Then chooseCloseState enters stateAwaitingEmptyCQ or stateFlushing.
	// disconnectTimeout limits stateAwaitingDisconnected and stateAwaitingEmptyCQ
	// together, and leads to stateFlushing.
	stateAwaitingDisconnected

	// stateAwaitingEmptyCQ: cm.Disconnected was received, but earlier completions may be
	// in the CQ. A flush now would fail requests that the peer has acknowledged. An empty
	// CQ or the time limit leads to stateFlushing.
	stateAwaitingEmptyCQ

	// stateFlushing: this side has disconnected, which flushes the queues. When all
	// sends and receives have completed, reportClose calls OnClose and enters
	// stateDisconnecting. After flushTimeout, reportClose fails the sends that have not
	// completed.
	stateFlushing

	// stateDisconnecting: OnClose was called. cm.Disconnected leads to stateClosed, also
	// if it was received in an earlier state, and it is not awaited of a silent peer. If the
	// queue pair may still have a shared receive buffer, it leads to stateAwaitingLastWQE
	// instead. The removal of the device and the end of Config.Limits.DrainTimeout lead to stateClosed.
	stateDisconnecting

	// stateAwaitingLastWQE: cm.Disconnected was received, and the queue pair may still
	// have a shared receive buffer: see mayHoldSharedBuffer. verbs.AsyncQPLastWQE, and
	// lastWQETimeout without this event, lead to stateClosed.
	stateAwaitingLastWQE

	// stateClosed: destroy() has released all resources of the connection. The loop does
	// not have the connection any more, but the application may.
	stateClosed
)

// If the device has failed, the states from stateCloseBegun to stateFlushing end early:
// the next step calls OnClose and enters stateDisconnecting.

const numConnStates = stateClosed + 1

// coarse returns the ConnState to which s belongs.
func (s connState) coarse() ConnState {
	switch s {
	case stateDialing:
		return StateDialing
	case stateConnecting, stateOpenFailed:
		return StateConnecting
	case stateOpen:
		return StateOpen
	case stateDraining:
		return StateDraining
	case stateCloseBegun, stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		return StateClosing
	case stateDisconnecting, stateAwaitingLastWQE:
		return StateDisconnecting
	}
	return StateClosed
}

// A connEvent is something that can change the state of a connection.
type connEvent uint8

const (
	// eventQueuePair: the queue pair was made.
	eventQueuePair connEvent = iota
	// eventEstablished: cm.Established was received, or a message and then
	// cm.Disconnected.
	eventEstablished
	// eventRefused: the connection can not open, and closing.reason has the reason.
	eventRefused
	// eventClose: the application has called Close. In stateOpen, eventTimeout is the same.
	eventClose
	// eventAbort: the application has called Abort, and closing.reason has the reason.
	eventAbort
	// eventReason: closing.reason has a reason.
	eventReason
	// eventStep: something that the state waits for has perhaps happened. scheduleStep
	// makes the loop cause this event, outside of callbacks.
	eventStep
	// eventTimeout: the time limit of the state has passed.
	eventTimeout
	// eventGiveUp: the loop does not wait for the peer or the device. It replaces eventStep:
	// see Conn.mustGiveUp.
	eventGiveUp

	numConnEvents
)

// An action is what an event does in a state.
type action uint8

const (
	doNothing action = iota // the event comes too early, too late, or has no effect

	doConnect       // enter stateConnecting
	doOpen          // call OnOpen, and OnMessage for messages that have arrived
	doFailToOpen    // call OnDialError or OnAcceptError
	doEndOpening    // schedule doFailWhenKnown, because the event may come in a callback
	doFailWhenKnown // doFailToOpen, unless the true reason may still come
	doCheckOpening  // handle waiting events, and then doEndOpening if none has helped
	doGiveUpOpening // doFailToOpen, because of ErrShutdown if there is no other reason
	doContinueRecv  // go on receiving after ResumeRecv
	doDrain         // confirm all sends
	doDrainStep     // end if all sends are confirmed
	doCheckDrained  // handle waiting completions, and then end
	doEnd           // schedule doCloseStep, because the event may come in a callback
	doCloseStep     // flush, and call OnClose when all is flushed
	doCheckClosed   // handle waiting completions, and then flush or call OnClose
	doAwaitLastWQE  // if the peer has disconnected, doDestroy, or first wait for the last buffer
	doLastWQEStep   // doDestroy if no buffer is missing
	doMissLastWQE   // doDestroy, and wait no more on this device
	doGiveUp        // call OnClose, because of ErrShutdown if there is no other reason, and doDestroy
	doDestroy       // release all resources
)

// A connStates is a set of states: bit s is set if the state s belongs to it.
type connStates uint16

func in(states ...connState) (set connStates) {
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

func (set connStates) has(s connState) bool { return set>>s&1 == 1 }

// A transition says what an event does in a state, and in which states the connection may
// be afterwards. A callback that the action calls may cause further events.
type transition struct {
	action action
	to     connStates
}

// transitions has the transition for each state and each event. An event without a
// transition is ignored.
var transitions = [numConnStates][numConnEvents]transition{
	stateDialing: {
		eventQueuePair: {doConnect, in(stateConnecting)},
		eventRefused:   {doFailToOpen, in(stateClosed)},
		eventReason:    {doEndOpening, in(stateOpenFailed)},
		eventTimeout:   {doCheckOpening, in(stateDialing, stateConnecting, stateOpenFailed, stateClosed)},
		eventGiveUp:    {doGiveUpOpening, in(stateClosed)},
	},
	stateConnecting: {
		eventEstablished: {doOpen, in(stateOpen, stateOpenFailed)},
		eventRefused:     {doFailToOpen, in(stateClosed)},
		eventReason:      {doEndOpening, in(stateOpenFailed)},
		eventTimeout:     {doCheckOpening, in(stateConnecting, stateOpen, stateOpenFailed, stateClosed)},
		eventGiveUp:      {doGiveUpOpening, in(stateClosed)},
	},
	stateOpenFailed: {
		eventRefused: {doFailToOpen, in(stateClosed)},
		eventStep:    {doFailWhenKnown, in(stateOpenFailed, stateClosed)},
		eventTimeout: {doFailToOpen, in(stateClosed)},
		eventGiveUp:  {doGiveUpOpening, in(stateClosed)},
	},
	stateOpen: {
		eventStep:    {doContinueRecv, in(stateOpen)},
		eventClose:   {doDrain, in(stateDraining)},
		eventAbort:   {doEnd, in(stateCloseBegun)},
		eventReason:  {doEnd, in(stateCloseBegun)},
		eventTimeout: {doDrain, in(stateDraining)},
		eventGiveUp:  {doGiveUp, in(stateClosed)},
	},
	stateDraining: {
		eventAbort:   {doEnd, in(stateCloseBegun)},
		eventReason:  {doEnd, in(stateCloseBegun)},
		eventStep:    {doDrainStep, in(stateDraining, stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing, stateDisconnecting)},
		eventTimeout: {doCheckDrained, in(stateDraining, stateCloseBegun)},
		eventGiveUp:  {doGiveUp, in(stateClosed)},
	},
	stateCloseBegun: {
		eventStep:   {doCloseStep, in(stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing, stateDisconnecting)},
		eventGiveUp: {doGiveUp, in(stateClosed)},
	},
	stateAwaitingDisconnected: {
		eventStep:    {doCloseStep, in(stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing, stateDisconnecting)},
		eventTimeout: {doCheckClosed, in(stateAwaitingDisconnected, stateFlushing, stateDisconnecting)},
		eventGiveUp:  {doGiveUp, in(stateClosed)},
	},
	stateAwaitingEmptyCQ: {
		eventStep:    {doCloseStep, in(stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing, stateDisconnecting)},
		eventTimeout: {doCheckClosed, in(stateAwaitingEmptyCQ, stateFlushing, stateDisconnecting)},
		eventGiveUp:  {doGiveUp, in(stateClosed)},
	},
	stateFlushing: {
		eventStep:    {doCloseStep, in(stateFlushing, stateDisconnecting)},
		eventTimeout: {doCheckClosed, in(stateFlushing, stateDisconnecting)},
		eventGiveUp:  {doGiveUp, in(stateClosed)},
	},
	stateDisconnecting: {
		eventStep:    {doAwaitLastWQE, in(stateDisconnecting, stateAwaitingLastWQE, stateClosed)},
		eventTimeout: {doDestroy, in(stateClosed)},
		eventGiveUp:  {doDestroy, in(stateClosed)},
	},
	stateAwaitingLastWQE: {
		eventStep:    {doLastWQEStep, in(stateAwaitingLastWQE, stateClosed)},
		eventTimeout: {doMissLastWQE, in(stateClosed)},
		eventGiveUp:  {doDestroy, in(stateClosed)},
	},
}

// on handles an event. Only the functions that it calls change the state.
func (c *Conn) on(e connEvent) {
	switch transitions[c.state][e].action {
	case doConnect:
		c.enterSameLimit(stateConnecting)
	case doOpen:
		c.open()
	case doFailToOpen:
		c.failToOpen()
	case doEndOpening:
		c.enter(stateOpenFailed)
		c.scheduleStep()
	case doFailWhenKnown:
		if !c.awaitsDeviceEvents() {
			c.failToOpen()
		}
	case doCheckOpening:
		c.onOpenTimeout()
	case doGiveUpOpening:
		c.closing.reason.setCause(ErrShutdown)
		c.failToOpen()
	case doContinueRecv:
		c.continueRecv()
	case doDrain:
		c.drain()
	case doDrainStep:
		c.continueRecv()
		c.drainStep()
	case doCheckDrained:
		c.onDrainTimeout()
	case doEnd:
		if c.state == stateOpen {
			c.logClosing()
		}
		c.endPause()
		c.enter(stateCloseBegun)
		c.scheduleStep()
	case doCloseStep:
		c.closeStep()
	case doCheckClosed:
		c.onCloseTimeout()
	case doAwaitLastWQE:
		if c.peerDone() {
			c.enterFor(stateAwaitingLastWQE, lastWQETimeout)
			c.on(eventStep)
		}
	case doLastWQEStep:
		if !c.mayHoldSharedBuffer() {
			c.destroy()
		}
	case doMissLastWQE:
		c.onLastWQETimeout()
	case doGiveUp:
		c.giveUp()
	case doDestroy:
		c.destroy()
	}
}

// A closing is what a connection needs to end.
type closing struct {
	reason  closeCause
	catchUp catchUp // polls the CQ before a time limit ends the connection
	lastWQE lastWQE // state of the wait for verbs.AsyncQPLastWQE
	// completionQueue.emptyPolls at the time of cm.Disconnected. After the next empty poll,
	// all completions from before cm.Disconnected are handled: see stateAwaitingEmptyCQ.
	emptyPollsAtDisconnect uint64

	deviceEvents deviceEventsState // state of the wait for the events of the device
	// true after Close, Abort and a time limit: OnMessage is not called any more
	discards bool
	queued   bool // true if the connection is in Loop.closing
	silent   bool // true after OnClose if the peer is not expected to answer: see peerIsSilent

	// What the peer is told: which call of the application ends the connection, or
	// CloseUnknown if none does, and what it has passed to CloseWith, or nil.
	call CloseKind
	said *CloseReason
}

// Close closes the connection. Accepted messages and operations are still sent and
// confirmed, within Config.Limits.DrainTimeout. From the call of Close on, only the callbacks
// OnCompletion and OnClose are called.
//
// Messages that still arrive are confirmed, but discarded and counted in
// Stats.Discarded; for an exception see DialOptions.ImmediatesOnly. If the connection is
// closing already, the error matches ErrClosed.
func (c *Conn) Close() error { return c.CloseWith(0, "") }

// CloseWith is Close with a reason of the application: the peer gets the code and the text in
// CloseError.Peer, if its library and the device of this side can do that (CloseReason). The
// text has at most MaxCloseText bytes. If it is longer, the error is a *verbs.ParamError, and
// the connection stays open.
func (c *Conn) CloseWith(code uint32, text string) error {
	const op = "close"
	c.loop.owner.check()
	if err := operr.CheckRange("length of the reason", len(text), 0, MaxCloseText); err != nil {
		return operr.Wrap(op, err)
	}
	if transitions[c.state][eventClose].action == doNothing {
		return operr.Wrap(op, errClosing)
	}
	if code != 0 || text != "" {
		c.closing.said = &CloseReason{Code: code, Text: text}
	}
	c.on(eventClose)
	return nil
}

// stop closes an open connection because the engine stops: the handler does, or eventTimeout.
func (c *Conn) stop() {
	c.loop.setTimer(&c.stateTimer, c.loop.cfg.Limits.StopTimeout)
	c.loop.onStop(c)
}

// Abort ends the connection at once. Unconfirmed operations fail, and received messages
// are discarded. OnClose of this side gets the cause, or ErrAborted if the cause is nil.
// OnClose of the peer gets ErrPeerClosed, and the reason CloseAborted without the cause.
//
// Unless the state is StateOpen or StateDraining, the error matches ErrClosed.
func (c *Conn) Abort(cause error) error {
	c.loop.owner.check()
	if transitions[c.state][eventAbort].action == doNothing {
		return operr.Wrap("abort", errClosing)
	}
	if cause == nil {
		cause = ErrAborted
	}
	c.closing.discards = true
	c.closing.call = CloseAborted
	c.closing.reason.setCause(cause)
	c.on(eventAbort)
	return nil
}

// endWith makes the connection end. OnClose gets the given cause, which is nil after the
// application's Close. endWith calls no callback.
func (c *Conn) endWith(cause error) {
	c.closing.reason.setCause(cause)
	c.on(eventReason)
}

// endBy makes an open connection end because the time limit that err names is over.
func (c *Conn) endBy(err error) {
	c.closing.discards = true
	c.endWith(err)
}

// refuse ends a connection that can not open because of err.
func (c *Conn) refuse(err error) {
	c.closing.reason.setCause(err)
	c.on(eventRefused)
}

// fail records a failed request, begins to close the connection, and returns the
// request's error. If the request is a keepalive probe, the error may match
// ErrKeepalive.
func (c *Conn) fail(wc *verbs.WC, keepalive bool) error {
	switch wc.Status {
	case verbs.StatusWRFlushErr:
		c.loop.stats.Flushes++
	case verbs.StatusRNRRetryExcErr:
		c.loop.stats.RNRErrors++
	}
	err := c.closing.reason.completionError(wc, c.immediatesOnly)
	if keepalive && wc.Status == verbs.StatusRetryExcErr {
		err = &CloseError{Cause: ErrKeepalive, First: err}
	}
	c.closing.reason.requestFailed(err, wc.Status)
	c.on(eventReason)
	return err
}

// scheduleStep makes the loop cause eventStep, in this turn or in the next.
func (c *Conn) scheduleStep() {
	if !c.closing.queued {
		c.closing.queued = true
		c.loop.closing.push(c)
	}
}

// step is called by the loop after scheduleStep.
func (c *Conn) step() {
	c.closing.queued = false
	if c.mustGiveUp() {
		c.on(eventGiveUp)
		return
	}
	c.on(eventStep)
}

const (
	// flushTimeout is how long a device may take to flush a queue pair. The number is
	// arbitrary.
	flushTimeout = time.Second
	// disconnectTimeout limits stateAwaitingDisconnected and stateAwaitingEmptyCQ
	// together. Arbitrary.
	disconnectTimeout = 10 * time.Millisecond
)

// onOpenTimeout is called when opening has taken too long. The loop may have been
// delayed, so onOpenTimeout first handles waiting connection events. One call handles
// only eventBudget events, so the timeout may be repeated.
func (c *Conn) onOpenTimeout() {
	mayRepeat := c.opening.mayRepeat(c.loop.liveConns)
	handled := (*eventSource)(c.loop).ready(0)
	switch {
	case c.state != stateDialing && c.state != stateConnecting:
	case handled == eventBudget && mayRepeat:
		c.repeatTimeout()
	default:
		c.endWith(fmt.Errorf("%w after %v", cm.ErrTimedOut, c.opening.limit(c.loop.cfg)))
	}
}

// repeatTimeout makes the state's timer fire again, but not in this turn of the loop.
func (c *Conn) repeatTimeout() { c.loop.timers.Set(&c.stateTimer, c.loop.clock.now+1) }

// drain enters stateDraining because of the application.
func (c *Conn) drain() {
	c.logClosing()
	c.closing.discards = true
	c.closing.call = CloseNormal
	if c.loop.state > loopRunning {
		c.closing.call = CloseShutdown
	}
	c.endPause()
	c.enter(stateDraining)
	c.closing.catchUp.reset()
	if c.long != nil {
		c.long.discard()
	}
	c.scheduleStep()
}

// drainStep begins to close if every send is confirmed. Otherwise it posts a probe, whose
// completion confirms unsignaled sends.
func (c *Conn) drainStep() {
	if c.sends.flow.outstanding() == 0 && c.longOutstanding() == 0 {
		c.closing.reason.setCause(nil)
		c.enter(stateCloseBegun)
		c.closeStep()
		return
	}
	if !c.stateTimer.Running() {
		c.loop.setTimer(&c.stateTimer, c.loop.cfg.Limits.DrainTimeout)
	}
	if c.sends.flow.probes == 0 && c.sends.flow.outstanding() > 0 {
		c.probe()
	}
}

// onDrainTimeout is called at the time limit of stateDraining. It first handles waiting
// confirmations, because the loop may have been delayed.
func (c *Conn) onDrainTimeout() {
	unconfirmed := func() bool { return c.sends.flow.outstanding() > 0 || c.longOutstanding() > 0 }
	done := !unconfirmed() || c.closing.catchUp.poll(c.queue)
	switch {
	case c.state != stateDraining || !unconfirmed():
	case !done:
		c.repeatTimeout()
	default:
		c.loop.stats.DrainTimeouts++
		c.endWith(ErrDrainTimeout)
	}
}

// probe stages a WRITE of zero bytes, for which the peer needs no memory or receive
// buffer (IBTA vol. 1, 9.7.2 and 9.3.3.1). The completion confirms all earlier requests.
func (c *Conn) probe() {
	c.times.liveness.probePosted(c.loop.clock.read(), c.sends.flow.outstanding() == 0)
	c.sends.flow.probes++
	wr, r := c.stage(verbs.OpWrite)
	wr.RemoteAddr, wr.RKey = 0, 0
	r.kind = requestProbe
}

// closeStep takes the next step in the states from stateCloseBegun to stateFlushing. If the
// device was removed, closeStep calls OnClose at once, without disconnecting.
func (c *Conn) closeStep() {
	if c.state < stateFlushing && !c.device.removed {
		c.chooseCloseState()
	}
	c.reportIfFlushed()
}

// chooseCloseState enters the next state of a closing connection. If the connection must
// still wait, that is a waiting state. Otherwise it is stateFlushing.
func (c *Conn) chooseCloseState() {
	switch disconnected := c.closing.reason.peerErr != nil; {
	case c.awaitsDeviceEvents():
		c.await(stateAwaitingDisconnected)
	case c.device.removed:
		// The device was removed. awaitsDeviceEvents has fetched the event that reports this.
	case !disconnected && c.closing.reason.provisional():
		c.await(stateAwaitingDisconnected)
	case disconnected && c.queue.emptyPolls == c.closing.emptyPollsAtDisconnect:
		c.await(stateAwaitingEmptyCQ)
		c.device.consume()
		c.scheduleStep()
	default:
		c.enterFlushing()
	}
}

// await enters stateAwaitingDisconnected or stateAwaitingEmptyCQ. Both states share one
// time limit, disconnectTimeout. It begins when the connection leaves stateCloseBegun.
func (c *Conn) await(s connState) {
	if c.state == stateCloseBegun {
		c.closing.catchUp.reset()
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
		c.loop.epoll.checkSoon()
	}
	c.enterSameLimit(s)
}

// giveUp ends an open or closing connection without waiting for the peer or the device. The
// peer still gets the reason.
func (c *Conn) giveUp() {
	c.closing.reason.setCause(ErrShutdown)
	if c.state == stateOpen {
		c.logClosing()
	}
	if c.state < stateFlushing && !c.device.removed {
		c.disconnect()
	}
	c.enter(stateCloseBegun) // OnCompletion can neither send nor abort.
	c.reportClose()
	c.destroy()
}

// enterFlushing enters stateFlushing and disconnects, which flushes the queues. Then it
// posts a probe, whose completion comes after all received messages.
func (c *Conn) enterFlushing() {
	c.enterFor(stateFlushing, flushTimeout)
	c.closing.catchUp.reset()
	c.disconnect()
	if c.sends.flow.probes == 0 {
		c.probe()
	}
	c.postSends()
}

// reportIfFlushed calls reportClose if the queues are flushed, or if the device has
// failed and no more completions will come.
func (c *Conn) reportIfFlushed() {
	if c.device.failure != nil || c.state == stateFlushing && c.sends.flow.inFlight() == 0 && c.recvs.inFlight() == 0 {
		c.reportClose()
	}
}

// onCloseTimeout is called at the time limit of stateAwaitingDisconnected,
// stateAwaitingEmptyCQ or stateFlushing. It first handles waiting completions, because
// the loop may have been delayed. Then it takes the next step.
func (c *Conn) onCloseTimeout() {
	if !c.device.removed && c.device.failure == nil && !c.closing.catchUp.poll(c.queue) {
		c.repeatTimeout()
		return
	}
	switch {
	case c.state == stateFlushing:
		c.reportClose()
		return
	case !c.device.removed:
		c.enterFlushing()
	}
	c.reportIfFlushed()
}

// disconnect disconnects the connection, which flushes its queues. After an error it
// moves the queue pair to the error state itself.
func (c *Conn) disconnect() {
	if c.id.Disconnect(c.encodeReason()) != nil {
		c.loop.recordError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
}

// reportClose delivers the messages that waited because of PauseRecv, moves the connection
// to stateDisconnecting, fails its outstanding requests, and calls OnClose.
func (c *Conn) reportClose() {
	c.endPause()
	c.continueRecv()
	c.failOutstanding()
	err := c.closing.reason.closeError(c.stats.Failed > 0)
	c.loop.timers.Stop(&c.times.timeout)
	c.loop.timers.Stop(&c.times.keepalive)
	c.closing.silent = c.peerIsSilent(err)
	c.enterFor(stateDisconnecting, c.loop.cfg.Limits.DrainTimeout)
	if c.peerDone() {
		c.scheduleStep()
	}
	c.loop.onClose(c, err)
}

// peerDone reports whether cm.Disconnected was received, or is not awaited because the device
// was removed or the peer is silent.
func (c *Conn) peerDone() bool {
	return c.closing.reason.peerErr != nil || c.device.removed || c.closing.silent
}

// peerIsSilent reports whether a connection that ends with err has a peer that has answered
// nothing for so long that it will not answer the disconnect request either. The provider
// repeats the request all the same, in case the peer comes back.
func (c *Conn) peerIsSilent(err error) bool {
	switch {
	case c.closing.reason.peerErr != nil:
		return false
	case noAnswer(err):
		return true
	}
	return errors.Is(err, ErrDrainTimeout) && c.loop.clock.read()-c.traffic().fromPeer() >= c.loop.cfg.Limits.DrainTimeout
}

// failOutstanding fails the requests that the device has not flushed. It first closes
// the queue pair. After that the device no longer uses their buffers.
func (c *Conn) failOutstanding() {
	if c.sends.flow.inFlight() > 0 {
		c.loop.recordError(c.id.CloseQP())
	}
	err := firstError(c.closing.reason.cause, firstError(c.closing.reason.peerErr, ErrPeerClosed))
	for c.sends.flow.outstanding() > 0 {
		c.retire(err)
	}
	if c.long != nil {
		c.long.fail(err)
	}
}

// failToOpen ends a connection that has not opened. It calls OnAcceptError with the reason,
// or OnDialError with the address and the reason.
func (c *Conn) failToOpen() {
	c.opening.dial.end()
	c.destroy()
	err := c.closing.reason.cause
	c.logFailed(err)
	if req := c.opening.request; req != nil {
		c.loop.onAcceptError(req, err)
	} else {
		c.loop.onDialError(c, fmt.Errorf("dial %v: %w", c.info.remote, err))
	}
}

// destroy releases all resources of the connection. The loop drops completions that are
// still in the CQ: see cq.Queue.Release.
func (c *Conn) destroy() {
	l := c.loop
	if c.state < stateOpen {
		l.openingConns--
	}
	c.enter(stateClosed)
	if c.id != nil {
		l.recordError(c.id.CloseQP())
	}
	if c.qp != nil {
		l.engine.qpOwners.remove(c.qp)
	}
	if c.device != nil {
		c.releaseResources()
	}
	if c.id != nil {
		l.recordError(c.id.Close())
	}
	l.conns.remove(c.key)
	l.liveConns--
	l.load.Add(-1)
	l.engine.heap.connEnded()
}

// releaseResources returns the buffers and the places on the CQ to the loopDevice, after
// the queue pair was closed.
func (c *Conn) releaseResources() {
	if o := c.opening; o != nil {
		for b := o.held.pop(); b != nil; b = o.held.pop() {
			c.repost(b)
		}
	}
	for b := c.recvs.own.take(); b != nil; b = c.recvs.own.take() {
		b.free()
	}
	c.sends.release()
	c.loop.recordError(c.sends.windows.closeAll())
	if c.long != nil && c.long.memory.peer != nil {
		c.loop.longRow.leave(c.long.memory.peer)
	}
	if c.sharesRecv() {
		c.device.sharedRecv.remove(c.info.qpNum, c)
	}
	if c.queue != nil {
		c.queue.release(c.places())
	}
}
