package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// NewLoop makes a loop without a goroutine, for an application that has an event loop of
// its own. The loop belongs to the goroutine that called NewLoop. Another goroutine may
// take over the loop, but the application must make sure that only one of them uses it
// at a time. NewLoop calls OnBoot before it returns. Config.NumLoops must be 0 or 1, and
// Config.CPUs must be empty. For the provider p and for the errors see New. If OnBoot
// fails, NewLoop returns the error of OnBoot.
//
// There are two ways to wait for work. Either RunOnce waits, or the application waits
// for input on FD, together with its own descriptors:
//
//	for {
//		for {
//			n, err := loop.RunOnce(0)  // repeat until n is 0
//			...
//		}
//		busy, err := loop.Arm()
//		if !busy {
//			...                        // wait until FD is readable
//		}
//	}
func NewLoop(p cm.Provider, h Handler, cfg *Config) (*Loop, error) {
	if err := cfg.checkEmbedded(); err != nil {
		return nil, operr.Wrap("create loop", err)
	}
	e, err := New(p, h, cfg)
	if err != nil {
		return nil, err
	}
	l := e.loops[0]
	e.embedded = true
	if err := l.initEmbedded(); err != nil {
		return nil, firstError(err, l.closeNow())
	}
	return l, nil
}

// checkEmbedded returns a *verbs.ParamError if the configuration has a setting that does
// not apply to a loop that the application runs.
func (c *Config) checkEmbedded() error {
	switch {
	case c == nil:
		return nil
	case len(c.CPUs) > 0:
		return &verbs.ParamError{Field: "CPUs", Value: int64(c.CPUs[0]), Reason: "the application runs the loop and pins its own thread"}
	}
	return checkRange("NumLoops", c.NumLoops, 0, 1)
}

// initEmbedded opens the timerFD of a loop made with NewLoop, marks the engine as
// started, and calls OnBoot and OnTick. The engine is marked before OnBoot, so that a
// call of Stop in OnBoot does not end the loop while OnBoot is running.
func (l *Loop) initEmbedded() (err error) {
	if l.timerFD, err = newTimerFD(); err != nil {
		return err
	}
	if _, err = l.watch(l.timerFD.fd, poller.Readable, l.timerFD); err != nil {
		return err
	}
	if err = l.engine.markStarted(); err != nil {
		return err
	}
	return l.boot()
}

// RunOnce runs one turn of the loop. If the turn had no work, RunOnce waits as the idle
// policy says, until there is work or the parameter timeout has passed, and runs another
// turn. If timeout is zero, RunOnce does not wait; if timeout is negative, it waits
// without limit. The result is the number of pieces of work that were done: IdlePolicy
// says what work is, and each completion, event, function and timer is one piece. The
// error is ErrClosed if the loop has ended. It matches verbs.ErrState if RunOnce is
// called in a callback, or for a loop that an engine runs.
func (l *Loop) RunOnce(timeout time.Duration) (work int, err error) {
	if err := l.checkRunnable("run"); err != nil {
		return 0, err
	}
	l.running = true
	l.beginRunOnce()
	work = l.turn()
	if work == 0 && timeout != 0 {
		work = l.waitForWork(timeout)
	}
	l.finishTurn()
	l.running = false
	return work, nil
}

// beginRunOnce ends the sleep that Arm began, if Arm was called since the last RunOnce.
func (l *Loop) beginRunOnce() {
	if !l.mailbox.sleeping.Load() {
		l.clock.pendingCost += runOnceCost
		return
	}
	l.afterSleep()
	l.clock.wake()
	l.stats.Sleeps++
	l.countWake(l.fetchEvents(), WakeByLimit)
}

// runOnceCost is added to clock.pendingCost in each call of RunOnce, in addition to the
// 1 that clock.tick adds in each turn. A loop reads its clock when pendingCost has
// reached clockEvery. So if the application only calls RunOnce(0), the loop reads its
// clock and checks its timers in every eighth call. Without runOnceCost it would do so
// in every 64th call, which may be much later, because the application does other things
// between the calls.
const runOnceCost = clockEvery/8 - 1

// waitForWork runs turns of the loop, and sleeps in between, until there was work or the
// timeout has passed.
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

// remaining returns how long the next sleep of waitForWork may take. The parameter
// timeLeft is the part of the timeout that has not passed yet. If timeLeft is negative,
// the result is 0. If the timeout is negative, RunOnce waits without limit, and the
// result is noLimit.
func remaining(timeout, timeLeft time.Duration) time.Duration {
	if timeout < 0 {
		return noLimit
	}
	return max(0, timeLeft)
}

// FD returns a descriptor that becomes readable when there is work for RunOnce, provided
// that Arm was called before and returned false. The descriptor belongs to the loop. The
// application may only wait for input on it, with epoll_wait or poll.
func (l *Loop) FD() int { return l.poller.FD() }

// Arm prepares the loop for waiting on FD. If busy is true, there is work already: call
// RunOnce instead of waiting. If busy is false, wait until FD is readable, and then call
// RunOnce. FD also becomes readable when a timer is due, and after Config.SafetyTimeout.
// The error is ErrClosed if the loop has ended. It matches verbs.ErrState if Arm is
// called in a callback, or for a loop that an engine runs.
func (l *Loop) Arm() (busy bool, err error) {
	if err := l.checkRunnable("arm"); err != nil {
		return false, err
	}
	if l.prepareSleep() {
		return true, nil
	}
	timeout, means := l.sleepLimit(noLimit)
	l.timerFD.setFor = means
	if err := l.timerFD.set(timeout); err != nil {
		l.afterSleep()
		return true, operr.Wrap("arm", err)
	}
	l.publish(true)
	return false, nil
}

// Stop begins to shut down the engine of the loop: see Engine.Stop. It may be called
// from any goroutine. For a loop made with NewLoop, the application must then call
// RunOnce until it returns ErrClosed.
func (l *Loop) Stop() { l.engine.Stop() }

// Close ends a loop made with NewLoop at once: its connections end with ErrShutdown. It
// returns the first error of releasing the resources of the loop. The error matches
// verbs.ErrState if Close is called in a callback, or for a loop that an engine runs. A
// second Close does nothing.
func (l *Loop) Close() error {
	if l.state == loopEnded {
		return nil
	}
	if err := l.checkCaller("close"); err != nil {
		return err
	}
	return l.closeNow()
}

// closeNow ends all connections of the loop without waiting for their peers. Then it ends
// the loop.
func (l *Loop) closeNow() error {
	l.running = true
	defer func() { l.running = false }()
	l.engine.Stop()
	l.mailbox.run()
	l.abortConns()
	for l.closing.len() > 0 {
		l.advanceClosing()
	}
	if l.state != loopEnded {
		l.end()
	}
	return l.engine.Wait()
}

// checkRunnable returns an error if the loop has ended, or else the error of checkCaller.
func (l *Loop) checkRunnable(op string) error {
	if l.state == loopEnded {
		return operr.Wrap(op, ErrClosed)
	}
	return l.checkCaller(op)
}

// checkCaller returns an error if the loop was not made with NewLoop, or if it is running
// a callback.
func (l *Loop) checkCaller(op string) error {
	if l.timerFD == nil || l.running {
		return operr.Wrap(op, verbs.ErrState)
	}
	return nil
}
