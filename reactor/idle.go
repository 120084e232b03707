package reactor

import (
	"sync/atomic"
	"time"
)

// An IdlePolicy says what a loop does after a turn without work. A piece of work is a
// completion, a connection event, a device event, an event of a registered descriptor, a
// posted function, a timer, a step of closing a connection, or a call of the function of
// Loop.SetTurnFunc that had work. While a loop has a function of SetTurnFunc, it does
// not sleep, whatever its policy is.
type IdlePolicy uint8

// The values of IdlePolicy.
const (
	// IdleAdaptive polls for Config.SpinBudget after the last work, as IdleBusy does, and
	// then sleeps.
	IdleAdaptive IdlePolicy = iota
	// IdleEvent sleeps at once.
	IdleEvent
	// IdleBusy never sleeps. It is the fastest policy if the loop has a processor for
	// itself, see Config.CPUs, and otherwise the slowest.
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

// yieldEvery is the shortest time between two calls of the Go scheduler. A loop makes
// such a call before it sleeps. Without these calls the Go runtime preempts the
// goroutine of the loop when 10 ms have passed since its last call of the scheduler
// (forcePreemptNS in runtime/proc.go); time that the goroutine has slept in system calls
// counts too. After one such preemption, the monitor thread of the runtime wakes up
// thousands of times a second, and takes the processor (P) of the goroutine away in each
// sleep. If the loop is pinned, the monitor thread also runs on the CPU of the loop.
const yieldEvery = 8 * time.Millisecond

// An idleState decides whether a loop without work polls again or sleeps.
type idleState struct {
	policy    atomic.Uint32 // an IdlePolicy
	budget    time.Duration // Config.SpinBudget
	spinning  bool          // with IdleAdaptive: the loop polls until spinUntil
	spinUntil time.Duration // end of the spin budget, in the loop's time
	lastYield time.Duration // last call of the Go scheduler, in the loop's time
}

// busyPolls is how often a turn of a loop that never sleeps polls the completion queues
// before it takes the other steps of the turn, unless a poll finds a completion. The loop
// then notices a message earlier: one poll takes about half as long as an empty turn. The
// number is arbitrary.
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
func (i *idleState) stopSpin() { i.spinning = false }

// keepSpinning reports whether the loop polls again, instead of sleeping, after a turn
// without work.
func (i *idleState) keepSpinning(k *clock) bool {
	switch IdlePolicy(i.policy.Load()) {
	case IdleBusy:
		return true
	case IdleEvent:
		return false
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
