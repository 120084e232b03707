package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// NewLoop makes a loop without a goroutine, for an application that has a loop
// of its own. It belongs to the goroutine that calls it, which hands it on, if at
// all, by the usual means of synchronization. OnBoot has been called when it
// returns. Config.Loops and Config.CPUs do not apply.
//
// Either RunOnce does all the waiting, or the application waits for FD among its
// own descriptors:
//
//	for {
//		for {
//			n, err := loop.RunOnce(0)  // until there is nothing to do
//			...
//		}
//		busy, err := loop.Arm()
//		if !busy {
//			...                        // wait for FD at once, for input
//		}
//	}
func NewLoop(p cm.Provider, h Handler, cfg *Config) (*Loop, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Loops, c.CPUs = 1, nil
	e, err := New(p, h, &c)
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

func (l *Loop) initEmbedded() (err error) {
	if l.timerFD, err = newTimerFD(); err != nil {
		return err
	}
	if _, err = l.watch(l.timerFD.fd, poller.Readable, l.timerFD); err != nil {
		return err
	}
	if err = l.boot(); err != nil {
		return err
	}
	return l.engine.markStarted()
}

// open makes what a loop has from the beginning.
func (l *Loop) open() (err error) {
	l.clock.origin = time.Now()
	l.mailbox.limit = l.cfg.Mailbox
	l.idle.budget = l.cfg.SpinBudget
	l.idle.policy.Store(uint32(l.cfg.Idle))
	l.ticker.fire = l.onTick
	l.epollEvery = 1
	if l.poller, err = poller.New(maxEvents); err != nil {
		return err
	}
	if l.channel, err = cm.OpenChannel(l.engine.provider); err != nil {
		return err
	}
	_, err = l.watch(l.channel.FD(), poller.Readable, (*eventSource)(l))
	return err
}

// maxEvents is how many descriptors one look at epoll serves.
const maxEvents = 64

// boot lets the application begin.
func (l *Loop) boot() error {
	l.clock.wake()
	if err := l.handler.OnBoot(l); err != nil {
		return err
	}
	l.booted = true
	l.onTick()
	return nil
}

// RunOnce makes one turn. When there was nothing to do, it waits according to
// the idle policy until there is, or timeout has passed, and makes another turn;
// zero means not to wait, negative not to give up. It returns how much work was
// done. The error is ErrClosed when the loop has ended, and matches verbs.ErrState
// in a callback, or for a loop that an engine runs.
func (l *Loop) RunOnce(timeout time.Duration) (work int, err error) {
	if err := l.checkRunnable("run"); err != nil {
		return 0, err
	}
	l.inRunOnce = true
	l.beginRunOnce()
	work = l.turn()
	if work == 0 && timeout != 0 {
		work = l.waitForWork(timeout)
	}
	l.inRunOnce = false
	l.finishTurn()
	return work, nil
}

// enter begins where the last RunOnce left off, or ends the sleep that Arm began.
func (l *Loop) beginRunOnce() {
	if !l.mailbox.sleeping.Load() {
		l.clock.pendingCost += runOnceCost
		return
	}
	l.afterSleep()
	l.clock.wake()
	l.stats.Sleeps++
	l.countWake(l.fetchEvents(), CauseLimit)
}

// runOnceCost is how many empty turns a call of RunOnce counts for: a caller that
// only polls has its clock read, and its timers looked at, every eighth call.
const runOnceCost = clockEvery/8 - 1

// await waits for work and does it.
func (l *Loop) waitForWork(timeout time.Duration) (work int) {
	until := l.clock.read() + timeout
	for work == 0 && !l.done() {
		if l.idle.keepSpinning(&l.clock) {
			work = l.turn()
		} else {
			l.sleep(remaining(timeout, until-l.clock.now))
			work = l.turn()
		}
		if timeout > 0 && l.clock.now >= until {
			break
		}
	}
	l.idle.stopSpin()
	return work
}

func remaining(timeout, left time.Duration) time.Duration {
	if timeout < 0 {
		return noLimit
	}
	return max(0, left)
}

// FD is a descriptor that is readable when RunOnce has something to do, after
// Arm has said so. It belongs to the loop: only wait for input on it, with epoll
// or poll.
func (l *Loop) FD() int { return l.poller.FD() }

// Arm prepares to wait for FD. Busy true means not to: there is work, call
// RunOnce. After false wait at once, and when FD is readable call RunOnce. FD
// also becomes readable when a timer is due, and after Config.SafetyTimeout.
func (l *Loop) Arm() (busy bool, err error) {
	if err := l.checkRunnable("arm"); err != nil {
		return false, err
	}
	if l.prepareSleep() {
		return true, nil
	}
	timeout, means := l.sleepLimit(noLimit)
	l.timerFD.wakeCause = means
	if err := l.timerFD.set(timeout); err != nil {
		l.afterSleep()
		return true, verbs.Wrap("arm", err)
	}
	return false, nil
}

// Stop begins to shut the loop's engine down: see Engine.Stop. A loop made with
// NewLoop has to be run on, until RunOnce returns ErrClosed.
func (l *Loop) Stop() { l.engine.Stop() }

// Close ends a loop made with NewLoop at once: connections end with ErrShutdown.
// It returns what could not be given back. A second Close does nothing.
func (l *Loop) Close() error {
	if l.ended {
		return nil
	}
	if err := l.checkCaller("close"); err != nil {
		return err
	}
	return l.closeNow()
}

// shut cuts off what the loop still has, and ends it.
func (l *Loop) closeNow() error {
	l.engine.Stop()
	l.mailbox.run()
	l.abortConns()
	for l.closing.len() > 0 {
		l.advanceClosing()
	}
	if !l.ended {
		l.end()
	}
	return l.engine.Wait()
}

func (l *Loop) checkRunnable(op string) error {
	if l.ended {
		return verbs.Wrap(op, ErrClosed)
	}
	return l.checkCaller(op)
}

func (l *Loop) checkCaller(op string) error {
	if l.timerFD == nil || l.inRunOnce {
		return verbs.Wrap(op, verbs.ErrState)
	}
	return nil
}
