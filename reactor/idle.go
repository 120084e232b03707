package reactor

import (
	"runtime"
	"sync/atomic"
	"time"
)

// IdlePolicy is what a loop does when there is nothing to do. Work is what
// ended in a callback, or could have: completions, connection events, posted
// functions, timers.
type IdlePolicy uint8

// Idle policies.
const (
	// IdleAdaptive polls for Config.SpinBudget after the last work, then
	// sleeps. While it polls it does so as IdleBusy.
	IdleAdaptive IdlePolicy = iota
	// IdleEvent sleeps at once.
	IdleEvent
	// IdleBusy never sleeps. It is the fastest when the loop has a processor
	// of its own, see Config.CPUs, and the slowest when it has not. With a
	// single device whose completion queues are verbs.SpinPollers, turns
	// without work take some eight microseconds each, spent inside the provider.
	IdleBusy
)

func (p IdlePolicy) String() string {
	names := [...]string{"adaptive", "event", "busy"}
	if int(p) < len(names) {
		return names[p]
	}
	return "unknown idle policy"
}

// spinLimit is how long a turn waits inside a provider that can spin: enough to
// make the crossings rare, and little for a posted function or a timer to wait.
const spinLimit = 8 * time.Microsecond

// forever is a sleep without a limit of the caller's.
const noLimit time.Duration = -1

// yieldEvery is how long a loop that sleeps now and then stays away from the Go
// scheduler. A goroutine that has not passed through it for 10ms counts as stuck
// (forcePreemptNS in runtime/proc.go), whatever it slept in system calls: the
// runtime then takes its processor away in each sleep, and wakes up thousands of
// times a second to do so, on the loop's own CPU if it is pinned.
const yieldEvery = 8 * time.Millisecond

// idle decides between polling on and sleeping.
type idleState struct {
	policy    atomic.Uint32
	budget    time.Duration
	spinning  bool          // the last turn had no work, and the loop polls on
	spinUntil time.Duration // in the loop's time
	lastYield time.Duration // when the scheduler last saw the loop, in the loop's time
}

// worked ends the spin.
func (i *idleState) stopSpin() { i.spinning = false }

// spin reports whether to poll on after a turn without work.
func (i *idleState) keepSpinning(k *clock) bool {
	switch IdlePolicy(i.policy.Load()) {
	case IdleBusy:
		i.spinning = true
		return true
	case IdleEvent:
		return false
	}
	if !i.spinning {
		i.spinning = true
		i.spinUntil = k.read() + i.budget
	}
	return k.now < i.spinUntil
}

// yields reports whether it is time to pass through the scheduler, and counts on
// it that the caller does.
func (i *idleState) yieldDue(now time.Duration) bool {
	if now-i.lastYield < yieldEvery {
		return false
	}
	i.lastYield = now
	return true
}

// sleep waits until something happens, for at most limit, unless something has
// happened already.
func (l *Loop) sleep(limit time.Duration) {
	l.publish(true)
	if l.prepareSleep() {
		return
	}
	if l.idle.yieldDue(l.clock.now) {
		runtime.Gosched() // nothing waits for the loop now
	}
	timeout, cause := l.sleepLimit(limit)
	n, err := l.poller.Wait(timeout)
	l.afterSleep()
	l.clock.wake()
	l.recordError(err)
	l.stats.Sleeps++
	l.countWake(n, cause)
}

// prepare makes the loop ready to sleep. Its order is what keeps a wake-up from
// being lost: say that the loop sleeps, so that whoever has something rings; arm
// the completion queues, and poll them again; and only then see whether
// anything came before all that. It reports whether something did.
func (l *Loop) prepareSleep() (busy bool) {
	l.mailbox.sleeping.Store(true)
	for _, n := range l.devices {
		if n.removed {
			continue // it might refuse to be armed, and that for good
		}
		found, err := n.group.Arm()
		if err != nil {
			n.fail(err)
		}
		busy = busy || found
	}
	busy = busy || l.mailbox.pending.Load() || l.closing.len() > 0 || len(l.dirty) > 0 || l.ended ||
		l.timers.due(l.clock.read())
	if busy {
		l.afterSleep()
	}
	return busy
}

func (l *Loop) afterSleep() {
	l.mailbox.sleeping.Store(false)
	l.idle.stopSpin()
}

// sleepLimit is how long to sleep, and what the end of that time means.
func (l *Loop) sleepLimit(limit time.Duration) (timeout time.Duration, cause Cause) {
	timeout, cause = l.cfg.SafetyTimeout, CauseSafety
	if limit >= 0 && limit < timeout {
		timeout, cause = limit, CauseLimit
	}
	if when, ok := l.timers.next(); ok && when-l.clock.now < timeout {
		timeout, cause = max(0, when-l.clock.now), CauseTimer
	}
	return timeout, cause
}

// countWake books the end of a sleep, and leaves the n events that ended it to
// the next turn.
func (l *Loop) countWake(n int, timedOut Cause) {
	cause := timedOut
	switch woken := l.poller.Woken(); {
	case n > 0:
		cause = l.wakeCause(n)
	case woken:
		cause = CausePost
	}
	l.stats.Wakes[cause]++
	if cause == CauseSafety {
		// What has come since the timeout was not slept over.
		n = l.fetchEvents()
		l.safetyWake = l.wakeCause(n) == CauseSafety
	}
	l.readyEvents = n
}

// wakeCause is the first, in their order, of the causes of n events.
func (l *Loop) wakeCause(n int) Cause {
	cause := CauseSafety
	for i := range n {
		if ev, ok := l.poller.Event(i); ok {
			cause = min(cause, l.sources[ev.Data].source.cause())
		}
	}
	return cause
}
