package reactor

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// noLimit means that only Config.Limits.SafetyTimeout and timers limit a sleep.
const noLimit time.Duration = -1

// keepsSpinning reports whether the loop polls again instead of sleeping. A loop with a
// turn function never sleeps.
//
// On a simulated host turns take no time, so polling would not end. The loop sleeps
// without polling. A loop with a turn function runs a turn in each simulatedTurn.
func (l *Loop) keepsSpinning() bool {
	switch {
	case l.engine.sim == nil:
		return l.turnFunc != nil || l.idle.keepSpinning(&l.clock)
	case l.turnFunc == nil:
		return false
	}
	l.engine.sim.Sleep(-1, simulatedTurn)
	return true
}

// simulatedTurn is the duration of a turn with a turn function on a simulated host.
// Arbitrary.
const simulatedTurn = 10 * time.Microsecond

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
	until := later(l.clock.now, timeout)
	woken := l.wait(timeout)
	l.afterSleep()
	l.clock.wake()
	if l.latency != nil && l.clock.now >= until {
		l.latency.oversleep.add(l.clock.now - until)
	}
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
	busy = busy || l.interrupted || l.mailbox.waiting() || l.closing.len() > 0 || len(l.dirty) > 0 || l.state == loopEnded || l.turnFunc != nil ||
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
func (l *Loop) sleepLimit(limit time.Duration) (timeout time.Duration, cause wakeCause) {
	timeout, cause = l.cfg.Limits.SafetyTimeout, wakeBySafety
	if limit >= 0 && limit < timeout {
		timeout, cause = limit, wakeByLimit
	}
	if when, ok := l.timers.Next(); ok && when-l.clock.now < timeout {
		timeout, cause = max(0, when-l.clock.now), wakeByTimer
	}
	return timeout, cause
}

// countWake counts the cause that has ended a sleep. If no event has ended it, the cause
// is timedOut.
func (l *Loop) countWake(w wakeup, timedOut wakeCause) {
	cause := l.wakeCause(w)
	switch {
	case cause != wakeBySafety:
	case w.posted:
		cause = wakeByPost
	default:
		cause = timedOut
	}
	*l.stats.wakes(cause)++
	if cause == wakeBySafety {
		// The safety timeout has ended the sleep. If an event has arrived since then, it
		// was not lost, and pollCompletions does not count a rescue (Stats.Rescues).
		w = l.fetchEvents()
		l.safetyWake = l.wakeCause(w) == wakeBySafety
	}
	// Loop.wait has also checked epoll.
	l.epoll.checked(l.clock.now, l.epollInterval())
	l.epoll.fetched = w.events
}

// wakeCause returns the cause of a wake-up. That is the smallest wakeCause of its
// events, or wakeBySafety if there are no events.
func (l *Loop) wakeCause(w wakeup) wakeCause {
	cause := wakeBySafety
	if w.completions {
		cause = wakeByCompletion
	}
	for i := range w.events {
		if ev, ok := l.poller.Event(i); ok {
			cause = min(cause, l.sources[ev.Data].source.wakeCause())
		}
	}
	return cause
}

// An IdlePolicy says what a loop does after a turn without work. If Loop.SetTurnFunc has
// set a function, the loop never sleeps. Each of these is work:
//
//   - a completion, or a posted function.
//   - a connection event, a device event, or an event of a registered descriptor.
//   - a timer, or a step of closing a connection.
//   - a call of the function of SetTurnFunc, if its result is true.
type IdlePolicy uint8

// The values of IdlePolicy.
const (
	// IdleAdaptive polls until Config.SpinBudget has passed without work, and then
	// sleeps. If the process has only one processor when the loop is made (GOMAXPROCS), it is
	// the same as IdleEvent: while a loop polls, nothing else could run.
	IdleAdaptive IdlePolicy = iota
	// IdleEvent sleeps after five turns without work. They take 0.3 µs on the local path
	// and 2 µs on the wire path.
	IdleEvent
	// IdleBusy never sleeps. It is the fastest policy for a loop with its own processor;
	// see Config.CPUs. For other loops it is the slowest.
	IdleBusy
)

// String returns the name of the policy: "adaptive", "event" or "busy".
func (p IdlePolicy) String() string {
	names := [...]string{"adaptive", "event", "busy"}
	if int(p) < len(names) {
		return names[p]
	}
	return "unknown idle policy"
}

// MarshalText returns the name of the policy, as String. With it and UnmarshalText an
// IdlePolicy can be a flag: see flag.TextVar.
func (p IdlePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets the policy from its name. The error is a *verbs.ParamError.
func (p *IdlePolicy) UnmarshalText(text []byte) error {
	for policy := range IdleBusy + 1 {
		if policy.String() == string(text) {
			*p = policy
			return nil
		}
	}
	return &verbs.ParamError{Field: "idle policy", NotNumber: true, Reason: fmt.Sprintf("%q is none of adaptive, event and busy", text)}
}

// yieldEvery is the time after which the loop calls the Go scheduler before a sleep.
// Without this call, the Go runtime would interrupt sleeps with signals after 10 ms
// (forcePreemptNS in runtime/proc.go).
const yieldEvery = 8 * time.Millisecond

// An idleState decides whether a loop without work polls again or sleeps.
//
// A goroutine that a callback starts or wakes stands in the place runnext of the loop's P.
// Another thread takes it from there only after a sleep of 3 µs (runqgrab in
// runtime/proc.go), which with Linux's default timer slack takes more than 55 µs. So a loop
// that is not locked to its thread, and to which functions are posted, calls the Go scheduler
// in the first turn without work: goroutines that make answers run at once. Without such
// goroutines the call would only cost time.
type idleState struct {
	policy    atomic.Uint32 // an IdlePolicy
	budget    time.Duration // value of Config.SpinBudget
	locked    bool          // true if the loop is locked to its thread: then the scheduler is slow
	alone     bool          // true if the process has one processor
	spinning  bool          // with IdleAdaptive: true while the loop polls until spinUntil
	yielded   bool          // true if the scheduler is not called before the next work or sleep
	yields    uint8         // number of calls of the scheduler until a function is posted again
	spinUntil time.Duration // time at which the spin budget ends, by the loop's clock
	// with IdleEvent, or alone: number of turns since the last work or sleep
	emptyTurns int
	lastYield  time.Duration // time of the last call of the scheduler before a sleep, by the loop's clock
}

// busyPolls is how often a turn polls the completion queues with IdleBusy. More polls
// notice messages earlier. Arbitrary.
const busyPolls = 8

// pollsPerTurn returns how often a turn of the loop polls the completion queues if it
// finds no completion.
func (i *idleState) pollsPerTurn() int {
	if IdlePolicy(i.policy.Load()) == IdleBusy {
		return busyPolls
	}
	return 1
}

// stopSpin is called after work and after a sleep. The next turn of the loop without work
// begins a new spin budget.
func (i *idleState) stopSpin() { i.spinning, i.yielded, i.emptyTurns = false, false, 0 }

// endSpin ends the spin budget: a turn without work lets the loop sleep, unless it is always
// busy.
func (i *idleState) endSpin() {
	i.spinning, i.yielded, i.spinUntil, i.emptyTurns = true, true, 0, eventTurns
}

const (
	// eventTurns is the number of turns without work after which a loop with IdleEvent
	// sleeps. They take at most a tenth of the time that a sleep costs. On the wire path an
	// answer often arrives during these turns: on a machine with other load, a round trip of
	// 64 bytes took 50 µs with 1 turn and 9 µs with 5.
	eventTurns = 5
	// postYields is how often a loop calls the scheduler after a posted function. Arbitrary:
	// goroutines may answer to some of the messages only.
	postYields = 16
)

// keepSpinning reports whether the loop polls again, instead of sleeping, after a turn
// without work.
func (i *idleState) keepSpinning(k *clock) bool {
	if i.yields > 0 && !i.yielded && !i.locked {
		i.yields--
		i.yielded = true
		runtime.Gosched()
		return true
	}
	switch policy := IdlePolicy(i.policy.Load()); {
	case policy == IdleBusy:
		return true
	case policy == IdleEvent, i.alone:
		i.emptyTurns++
		return i.emptyTurns < eventTurns
	}
	if !i.spinning {
		i.spinning = true
		i.spinUntil = k.after(i.budget)
	}
	return k.now < i.spinUntil
}

// yieldDue reports whether the caller must call the Go scheduler now.
func (i *idleState) yieldDue(now time.Duration) bool {
	if now-i.lastYield < yieldEvery {
		return false
	}
	i.lastYield = now
	return true
}
