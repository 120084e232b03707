package reactor

import (
	"sync/atomic"
	"time"
)

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
	// sleeps.
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

// yieldEvery is the time after which the loop calls the Go scheduler before a sleep.
// Without this call, the Go runtime would interrupt sleeps with signals after 10 ms
// (forcePreemptNS in runtime/proc.go).
const yieldEvery = 8 * time.Millisecond

// An idleState decides whether a loop without work polls again or sleeps.
type idleState struct {
	policy    atomic.Uint32 // an IdlePolicy
	budget    time.Duration // value of Config.SpinBudget
	spinning  bool          // with IdleAdaptive: true while the loop polls until spinUntil
	spinUntil time.Duration // time at which the spin budget ends, by the loop's clock
	// with IdleEvent: number of turns since the last work or sleep
	emptyTurns int
	lastYield  time.Duration // time of the last call of runtime.Gosched, by the loop's clock
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
func (i *idleState) stopSpin() { i.spinning, i.emptyTurns = false, 0 }

// eventTurns is the number of turns without work after which a loop with IdleEvent
// sleeps. They take at most a tenth of the time that a sleep costs. On the wire path an
// answer often arrives during these turns: on a machine with other load, a round trip of
// 64 bytes took 50 µs with 1 turn and 9 µs with 5.
const eventTurns = 5

// keepSpinning reports whether the loop polls again, instead of sleeping, after a turn
// without work.
func (i *idleState) keepSpinning(k *clock) bool {
	switch IdlePolicy(i.policy.Load()) {
	case IdleBusy:
		return true
	case IdleEvent:
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
