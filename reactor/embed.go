package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// NewLoop makes a loop without a goroutine, for an application with its own event loop.
// Only one goroutine at a time may use the loop. NewLoop calls OnBoot, and returns its
// error. Config.NumLoops must be 0 or 1, and the loop can not be pinned. For p and the errors
// see New.
//
// The application can let RunOnce wait for work. Instead it can wait for FD, together
// with its own descriptors: see Poll. A loop ends by Engine.Stop, when RunOnce or Poll returns an
// error that matches ErrClosed, or at once by Loop.Close. After either the provider can be closed.
func NewLoop(p cm.Provider, h Handler, cfg *Config) (*Loop, error) {
	const op = "create loop"
	if cfg != nil && cfg.NumLoops > 1 {
		return nil, operr.Wrap(op, &verbs.ParamError{Field: "NumLoops", Value: int64(cfg.NumLoops), Limit: 1, Reason: "the application runs the loop, and NewLoop makes only one"})
	}
	e, err := New(p, h, cfg)
	if err != nil {
		return nil, err
	}
	l := e.loops[0]
	e.embedded, l.owner.moves = true, true
	if l.cpu < 0 {
		err = l.initEmbedded()
	} else {
		err = operr.Wrap(op, &verbs.ParamError{Field: "CPU", Value: int64(l.cpu), Reason: "the application runs the loop and pins its own thread"})
	}
	if err != nil {
		return nil, firstError(err, l.closeNow())
	}
	return l, nil
}

// A timerFD is a timer with a descriptor (timerfd_create(2)). It ends the application's
// wait on a loop made with NewLoop when a timer is due.
type timerFD struct {
	*fdevent.Timer
	setFor wakeCause // reason for which the timer was set: wakeByTimer or wakeBySafety
}

func (t *timerFD) ready(poller.Readiness) (work int) {
	t.Drain()
	return 0
}

func (t *timerFD) wakeCause() wakeCause { return t.setFor }

// initEmbedded opens the timerFD and calls OnBoot. It first marks the engine as started,
// because otherwise Stop in OnBoot would end the loop at once.
func (l *Loop) initEmbedded() (err error) {
	timer, err := fdevent.NewTimer(l.engine.sim)
	if err != nil {
		return err
	}
	l.timerFD = &timerFD{Timer: timer}
	if _, err = l.watch(timer.FD(), poller.Readable, l.timerFD); err != nil {
		return err
	}
	if err = l.engine.markStarted(); err != nil {
		return err
	}
	return l.boot()
}

// RunOnce runs one turn of the loop. If there is no work, RunOnce waits for work, at
// most for the timeout. Zero means no waiting, and a negative timeout means no limit.
// The result is the number of completions, events, posted functions, timers and steps that
// were work: see IdlePolicy.
//
// If the loop has ended or OnShutdown is running, the error matches ErrClosed. In other
// callbacks, and for a loop that an engine runs, the error matches verbs.ErrState.
//
// A panic of a callback or of a posted function ends RunOnce. If the program recovers from
// it, the loop goes on with the next call on the same goroutine. A connection whose callback
// has panicked is aborted with ErrPanicked, and a timer that has panicked does not
// come again by itself.
func (l *Loop) RunOnce(timeout time.Duration) (work int, err error) {
	if err := l.begin("run"); err != nil {
		return 0, err
	}
	work = l.turn()
	if work == 0 && timeout != 0 {
		work = l.waitForWork(timeout)
	}
	l.finishTurn()
	l.owner.running = false
	return work, nil
}

// Poll is for an application that waits for FD in an event loop of its own. It runs turns of
// the loop, at most the given number of them and at least one, until the loop would sleep
// (see Config.Idle). Then it prepares the loop for the wait, and checks once more that
// there is no work:
//
//	for {
//		busy, err := loop.Poll(16)
//		...
//		// If busy is true, look at the application's own descriptors without waiting.
//		// Otherwise wait for them and for FD.
//	}
//
// If busy is true, there may be work. If busy is false, FD becomes readable for work, for
// timers, and after Config.Limits.SafetyTimeout. Before each wait the application calls Poll, because
// what it has done with the loop since the last call may need a turn. A small number of turns
// lets the application look at its own descriptors often, and a large one saves system calls.
// A turn has limits of its own, such as Config.Limits.CompletionBudget.
//
// A loop with IdleBusy or a turn function is always busy. For the errors, and for a panic of
// a callback, see RunOnce.
func (l *Loop) Poll(turns int) (busy bool, err error) {
	if err := l.begin("poll"); err != nil {
		return false, err
	}
	for busy = true; busy && err == nil && l.state != loopEnded; turns-- {
		busy, err = l.pollTurn()
		if turns <= 1 {
			break
		}
	}
	l.owner.running = false
	return busy, err
}

// pollTurn runs a turn of the loop. If the loop would sleep after it, pollTurn arms the loop
// and returns false.
func (l *Loop) pollTurn() (busy bool, err error) {
	work := l.turn()
	l.finishTurn()
	switch {
	case work > 0:
		l.idle.stopSpin()
		return true, nil
	case l.state == loopEnded || l.keepsSpinning():
		return true, nil
	}
	return l.arm()
}

// afterPanic makes the loop fit for the next turn, after a callback or a posted function has
// ended RunOnce or Poll with a panic. It aborts the connection whose callback it was. The
// steps of the turn themselves can be continued: see mailbox.run and finishBatches.
func (l *Loop) afterPanic() {
	l.owner.running = false
	l.epoll.fetched = 0 // The descriptors whose events were not handled are still ready.
	c, b := l.calling, l.currentMessage
	l.calling, l.currentMessage = nil, nil
	if b == &l.inlineBuffer {
		b.endInline()
	} else if b != nil && b.state == bufferDelivered {
		c.repost(b)
	}
	if c != nil && c.state != stateClosed {
		c.closing.discards = true
		c.closing.reason.setCause(ErrPanicked)
		c.on(eventAbort)
		c.scheduleStep() // for a connection that was closing
	}
	if l.state >= loopDraining { // OnStop may have panicked.
		_ = l.post("stop", l.stopConns, true) // Post fails only if the loop has ended.
	}
	l.interrupted = true
}

// finishBatches handles the completions that were polled before a panic, and not handled.
func (l *Loop) finishBatches() {
	for _, d := range l.devices {
		for _, q := range d.queues {
			if q.at > 0 {
				q.handle(q.at)
			}
		}
	}
	l.interrupted = false
}

// begin begins a call of RunOnce or Poll. It ends the sleep that began when Poll returned
// false. If a descriptor of the application has ended that sleep, the loop has no reason to
// spin.
func (l *Loop) begin(op string) error {
	if err := l.checkRunnable(op); err != nil {
		return err
	}
	l.owner.begin()
	if l.interrupted {
		l.finishBatches()
	}
	if !l.mailbox.sleeping.Load() {
		l.clock.pendingCost += beginCost
		return nil
	}
	l.afterSleep()
	l.idle.endSpin()
	l.clock.wake()
	l.stats.Sleeps++
	l.countWake(l.fetchEvents(), wakeByLimit)
	return nil
}

// beginCost is added to clock.pendingCost in each call of RunOnce or Poll that does not end a
// sleep, because the application may spend time between the calls. At least every eighth call
// then reads the system's clock.
const beginCost = clockEvery/8 - 1

// waitForWork runs turns of the loop, with sleeps in between, until there was work or
// the timeout has passed.
func (l *Loop) waitForWork(timeout time.Duration) (work int) {
	until := l.clock.after(timeout)
	for work == 0 && !l.done() {
		if !l.keepsSpinning() {
			l.sleep(remaining(timeout, until-l.clock.now))
		}
		work = l.turn()
		if timeout > 0 && l.clock.now >= until {
			break
		}
	}
	l.idle.stopSpin()
	return work
}

// remaining returns how long waitForWork may sleep. If timeout is negative, there is no
// limit.
func remaining(timeout, timeLeft time.Duration) time.Duration {
	if timeout < 0 {
		return noLimit
	}
	return max(0, timeLeft)
}

// FD returns a descriptor that becomes readable when there is work, after Poll has returned
// false. The descriptor belongs to the loop. The application may only wait until it is
// readable, for example with epoll_wait(2) or poll(2).
func (l *Loop) FD() int { return l.poller.FD() }

// arm prepares the loop for waiting on FD, unless there is work. After an error the loop is
// not armed.
func (l *Loop) arm() (busy bool, err error) {
	if l.prepareSleep() {
		return true, nil
	}
	timeout, means := l.sleepLimit(noLimit)
	l.timerFD.setFor = means
	if err := l.timerFD.Set(timeout); err != nil {
		l.afterSleep()
		return true, operr.Wrap("arm", err)
	}
	l.publish(true)
	return false, nil
}

// Close ends a loop made with NewLoop at once. Its connections end with ErrShutdown.
// Close returns the first error of releasing resources. In a callback, or for a loop
// that an engine runs, the error matches verbs.ErrState. A second Close does nothing.
func (l *Loop) Close() error {
	if err := l.checkCaller("close"); err != nil || l.state == loopEnded {
		return err
	}
	return l.closeNow()
}

// closeNow ends all connections of the loop without waiting for their peers. Then it ends
// the loop.
func (l *Loop) closeNow() error {
	l.engine.Stop()
	l.endNow()
	return l.engine.Wait()
}

func (l *Loop) endNow() {
	l.owner.begin()
	l.mailbox.run()
	l.abortConns()
	for l.closing.len() > 0 {
		l.advanceClosing()
	}
	if l.state != loopEnded {
		l.end()
	}
	l.owner.running = false
}

// checkRunnable returns an error if the loop has ended, or else the error of checkCaller.
func (l *Loop) checkRunnable(op string) error {
	if l.state == loopEnded {
		return operr.Wrap(op, errLoopEnded)
	}
	return l.checkCaller(op)
}

// checkCaller returns an error if a callback is running or an engine runs the loop.
func (l *Loop) checkCaller(op string) error {
	if l.timerFD != nil && !l.owner.running {
		return nil
	}
	return l.checkPanicked(op)
}

// checkPanicked returns no error if the loop is not running any more, because of a panic.
func (l *Loop) checkPanicked(op string) error {
	switch {
	case l.timerFD == nil:
		return operr.Wrap(op, stateError("an engine runs the loop; NewLoop makes loops for RunOnce"))
	case !l.owner.hasPanicked():
		return operr.Wrap(op, stateError("a callback of the loop is running"))
	}
	l.afterPanic()
	return nil
}
