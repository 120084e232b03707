package reactor

import (
	"runtime"
	"time"
)

// noLimit means that only Config.SafetyTimeout and timers limit a sleep.
const noLimit time.Duration = -1

// keepsSpinning reports whether the loop polls again instead of sleeping. A loop with a
// turn function never sleeps.
func (l *Loop) keepsSpinning() bool { return l.turnFunc != nil || l.idle.keepSpinning(&l.clock) }

// sleep waits for an event, at most for the given time. If there is work, sleep() does
// not wait.
func (l *Loop) sleep(limit time.Duration) {
	l.publish(true)
	if !l.prepareSleep() {
		l.waitAsleep(limit)
	}
}

// waitAsleep waits for an event. It is called after prepareSleep has found no work.
func (l *Loop) waitAsleep(limit time.Duration) {
	if l.idle.yieldDue(l.clock.now) {
		runtime.Gosched() // The loop has no work that Gosched could delay.
	}
	timeout, cause := l.sleepLimit(limit)
	woken := l.wait(timeout)
	l.afterSleep()
	l.clock.wake()
	l.stats.Sleeps++
	l.countWake(woken, cause)
}

// prepareSleep prepares the loop for a sleep, and reports whether there is work. The
// order of the steps prevents lost wake-ups:
//
//   - Set mailbox.sleeping, so that Post wakes the loop.
//   - Arm the completion queues, and poll them again.
//   - Check for posted functions, due timers and other work.
func (l *Loop) prepareSleep() (busy bool) {
	l.mailbox.sleeping.Store(true)
	for _, d := range l.devices {
		if d.failure != nil {
			// The device has failed, and no more completions are expected. Arming its
			// CQs could fail each time, and then the loop would never sleep.
			continue
		}
		found, err := d.group.Arm()
		if err != nil {
			d.fail(err)
		}
		busy = busy || found
	}
	busy = busy || l.mailbox.pending.Load() || l.closing.len() > 0 || len(l.dirty) > 0 || l.state == loopEnded || l.turnFunc != nil ||
		l.timers.Due(l.clock.read())
	if busy {
		l.afterSleep()
	}
	return busy
}

// afterSleep undoes prepareSleep. It records that the loop is awake, and disarms the
// completion queues, because the loop polls them again.
func (l *Loop) afterSleep() {
	l.mailbox.sleeping.Store(false)
	l.idle.stopSpin()
	for _, d := range l.devices {
		d.group.Disarm()
	}
}

// sleepLimit returns how long the loop may sleep, and the cause to count if no event
// ends the sleep earlier. The parameter limit is the caller's limit, or noLimit.
func (l *Loop) sleepLimit(limit time.Duration) (timeout time.Duration, cause WakeCause) {
	timeout, cause = l.cfg.SafetyTimeout, WakeBySafety
	if limit >= 0 && limit < timeout {
		timeout, cause = limit, WakeByLimit
	}
	if when, ok := l.timers.Next(); ok && when-l.clock.now < timeout {
		timeout, cause = max(0, when-l.clock.now), WakeByTimer
	}
	return timeout, cause
}

// countWake counts the cause that has ended a sleep. If no event has ended it, the cause
// is timedOut.
func (l *Loop) countWake(w wakeup, timedOut WakeCause) {
	cause := l.wakeCause(w)
	switch {
	case cause != WakeBySafety:
	case w.posted:
		cause = WakeByPost
	default:
		cause = timedOut
	}
	l.stats.Wakes[cause]++
	if cause == WakeBySafety {
		// The safety timeout has ended the sleep. If an event has arrived since then, it
		// was not lost, and pollCompletions does not count a rescue (Stats.Rescues).
		w = l.fetchEvents()
		l.safetyWake = l.wakeCause(w) == WakeBySafety
	}
	// Loop.wait has also checked epoll.
	l.epoll.checked(l.clock.now, l.epollInterval())
	l.epoll.fetched = w.events
}

// wakeCause returns the cause of a wake-up. That is the smallest WakeCause of its
// events, or WakeBySafety if there are no events.
func (l *Loop) wakeCause(w wakeup) WakeCause {
	cause := WakeBySafety
	if w.completions {
		cause = WakeByCompletion
	}
	for i := range w.events {
		if ev, ok := l.poller.Event(i); ok {
			cause = min(cause, l.sources[ev.Data].source.wakeCause())
		}
	}
	return cause
}
