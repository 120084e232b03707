package cq_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var seedFlag = flag.Uint64("seed", 0, "run TestProtocol with this seed only")

const (
	seeds         = 4000 // number of runs; arbitrary
	completions   = 150  // number of completions in a run
	maxDelay      = 10   // longest delay of an event, in ticks
	safetyTimeout = 25   // longest sleep of the owner in ticks; longer than maxDelay
	// largest number of turns of the loop; arbitrary
	maxTurns = 100 * completions
)

// TestProtocol runs the owner's loop on a device that loses, duplicates, delays and
// merges events. The loop must not sleep while a completion waits, unless an event is on
// its way or was lost.
func TestProtocol(t *testing.T) {
	first, last := uint64(1), uint64(seeds)
	if testing.Short() {
		last /= 2
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	sum := tally{}
	for seed := first; seed <= last; seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newSimulation(t, seed)
			w.run()
			sum.add(w)
		})
		if !ok {
			t.Fatalf("repeat with: go test -run TestProtocol -seed %d", seed)
		}
	}
	if *seedFlag == 0 {
		sum.check(t)
	}
}

// A simulation is one run of the random test, with its own device and group.
type simulation struct {
	t      *testing.T
	rng    *rand.Rand
	script *faultcq.Script
	dev    *faultcq.Device
	group  *cq.Group
	queues []*testQueue

	rate     int  // chance of new completions at each step, in percent
	toAdd    int  // completions that the device has not added yet
	quiet    bool // true while the device adds no completions
	sleeps   int  // number of sleeps
	rescues  int  // number of calls of Group.Rescued
	replaced int  // number of queues closed during the run
}

// A testQueue is a queue with its CQ of the simulated device. Its completions have the
// ids 0, 1, 2 and so on.
type testQueue struct {
	queue     *cq.Queue
	cq        *faultcq.CQ
	added     uint64 // completions that the device has added
	delivered uint64 // completions that Poll has returned
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	w := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 1)), toAdd: completions}
	w.rate = 1 + w.rng.IntN(30)
	w.script = &faultcq.Script{
		Seed:         seed,
		Drop:         w.chance(),
		Duplicate:    w.chance(),
		Delay:        w.chance(),
		Merge:        w.chance(),
		Spurious:     w.chance() / 4,
		Eager:        w.chance(),
		MaxDelay:     maxDelay,
		ArmAfterTake: w.in(50),
		KeepStale:    w.in(50),
		Between:      w.betweenSteps,
	}
	w.group, w.dev = newGroup(t, w.script, &cq.Config{
		Batch:    1 + w.rng.IntN(8),
		AckEvery: 1 + w.rng.IntN(5),
	})
	for range 1 + w.rng.IntN(4) {
		w.queues = append(w.queues, w.newQueue())
	}
	return w
}

// chance returns a random probability in percent. It is 0 in half of the runs.
func (sim *simulation) chance() int { return max(0, sim.rng.IntN(120)-60) }

func (sim *simulation) in(percent int) bool { return sim.rng.IntN(100) < percent }

func (sim *simulation) newQueue() *testQueue {
	depth := 1 + sim.rng.IntN(16)
	q, err := sim.group.NewQueue(depth)
	sim.ok(err)
	sim.ok(q.Reserve(depth))
	return &testQueue{queue: q, cq: deviceCQ(q)}
}

// betweenSteps sometimes adds completions or advances the device's time. It runs between
// two steps of the owner.
func (sim *simulation) betweenSteps() {
	if sim.quiet {
		return
	}
	if sim.in(sim.rate) {
		sim.complete()
	}
	if sim.in(20) {
		sim.dev.Advance()
	}
}

// complete adds up to 3 completions to a random queue, as far as they fit.
func (sim *simulation) complete() {
	if len(sim.queues) == 0 {
		return
	}
	l := sim.queues[sim.rng.IntN(len(sim.queues))]
	for range 1 + sim.rng.IntN(3) {
		if sim.toAdd == 0 || l.cq.Waiting() == l.cq.Depth() {
			return
		}
		l.cq.Complete(verbs.WC{ID: l.added})
		l.added++
		sim.toAdd--
	}
}

// run is the owner's loop, as in the package comment.
func (sim *simulation) run() {
	timedOut := false
	for turn := 0; !sim.done(); turn++ {
		if turn == maxTurns {
			sim.t.Fatalf("%d completions are still not delivered", sim.undelivered())
		}
		found := sim.poll()
		sim.quiet = false
		if found && timedOut {
			sim.group.Rescued()
			sim.rescues++
		}
		timedOut = false
		if found || sim.in(30) { // In 30 % of the turns, poll again instead of sleeping.
			sim.replaceQueue()
			continue
		}
		busy, err := sim.group.Arm()
		sim.ok(err)
		if !busy {
			timedOut = sim.sleep()
		}
	}
	sim.close()
}

// poll polls all queues once. The completions of a queue must arrive in their order.
func (sim *simulation) poll() (found bool) {
	for i, l := range sim.queues {
		wcs, err := l.queue.Poll()
		sim.ok(err)
		for _, wc := range wcs {
			if wc.ID != l.delivered {
				sim.t.Fatalf("queue %d: completion %d came when %d was next", i, wc.ID, l.delivered)
			}
			l.delivered++
		}
		found = found || len(wcs) > 0
	}
	return found
}

// sleep waits until the descriptor is readable, and then calls Group.Consume. It returns
// true if the safety timeout ended the sleep.
//
// The device adds no more completions shortly before the timeout. Their events could be
// delayed beyond the timeout, and would look lost.
func (sim *simulation) sleep() (timedOut bool) {
	sim.sleeps++
	for tick := range safetyTimeout {
		if sim.readable() {
			sim.consume()
			return false
		}
		sim.requireEventPending()
		sim.dev.Advance()
		if tick < safetyTimeout-maxDelay {
			sim.betweenSteps()
		}
	}
	timedOut = !sim.readable()
	sim.quiet = timedOut
	sim.consume()
	return timedOut
}

// requireEventPending requires that each queue with completions has an event. The event
// is on its way or was lost.
func (sim *simulation) requireEventPending() {
	for i, l := range sim.queues {
		if n := l.cq.Waiting(); n > 0 && !l.cq.EventDue() && !l.cq.EventLost() {
			sim.t.Fatalf("asleep with %d completions on queue %d and no event to come", n, i)
		}
	}
}

func (sim *simulation) readable() bool {
	yes, err := sim.dev.Readable()
	sim.ok(err)
	return yes
}

func (sim *simulation) consume() {
	_, err := sim.group.Consume()
	sim.ok(err)
	// A second Consume must do no harm.
	if sim.in(50) {
		_, err = sim.group.Consume()
		sim.ok(err)
	}
}

// replaceQueue sometimes closes an empty queue and creates a new one.
func (sim *simulation) replaceQueue() {
	i := sim.rng.IntN(len(sim.queues))
	l := sim.queues[i]
	if !sim.in(5) || l.delivered != l.added {
		return
	}
	// The device adds no completions now, because Close would drop them.
	sim.quiet = true
	sim.closeQueue(l)
	sim.queues[i] = sim.newQueue()
	sim.replaced++
	sim.quiet = false
}

func (sim *simulation) closeQueue(l *testQueue) {
	sim.ok(l.queue.Close())
	if taken, acked := l.cq.Events(); taken != acked {
		sim.t.Fatalf("%d events taken, %d given back", taken, acked)
	}
}

func (sim *simulation) undelivered() (n uint64) {
	for _, l := range sim.queues {
		n += l.added - l.delivered
	}
	return n
}

func (sim *simulation) done() bool { return sim.toAdd == 0 && sim.undelivered() == 0 }

// close ends the run, and compares the group's counters with the test's own.
func (sim *simulation) close() {
	for _, l := range sim.queues {
		sim.closeQueue(l)
	}
	sim.ok(sim.group.Close())
	if n := sim.dev.Open(); n != 0 {
		sim.t.Fatalf("%d objects are still open", n)
	}
	s, c := sim.group.Stats(), sim.dev.Counts()
	sim.equal("completions", s.Completions, completions)
	sim.equal("events not stale", s.Events-s.StaleEvents, s.AckedEvents)
	sim.equal("rescues", s.Rescues, uint64(sim.rescues))
	sim.equal("refusals", s.Refusals, 0)
	if c.Dropped == 0 && s.Rescues > 0 {
		sim.t.Fatalf("%d rescues, but no event was lost", s.Rescues)
	}
	// A CQ is armed when it is new, after each event, and after each Rescued.
	made := uint64(len(sim.queues) + sim.replaced)
	if most := made + s.Events + s.Rescues*uint64(len(sim.queues)); s.Arms > most {
		sim.t.Fatalf("armed %d times, more than %d", s.Arms, most)
	}
}

func (sim *simulation) ok(err error) {
	if err != nil {
		sim.t.Helper()
		sim.t.Fatal(err)
	}
}

func (sim *simulation) equal(what string, got, want uint64) {
	if got != want {
		sim.t.Helper()
		sim.t.Fatalf("%s: %d, not %d", what, got, want)
	}
}

// A tally adds up the counters of all runs. It shows whether every kind of fault
// occurred.
type tally map[string]uint64

func (s tally) add(w *simulation) {
	c, g := w.dev.Counts(), w.group.Stats()
	s["sleeps"] += uint64(w.sleeps)
	s["queues closed"] += uint64(w.replaced)
	s["rescues"] += g.Rescues
	s["unasked"] += g.UnaskedEvents
	s["stale"] += g.StaleEvents
	s["dropped"] += uint64(c.Dropped)
	s["duplicated"] += uint64(c.Duplicated)
	s["delayed"] += uint64(c.Delayed)
	s["merged"] += uint64(c.Merged)
	s["spurious"] += uint64(c.Spurious)
}

func (s tally) check(t *testing.T) {
	t.Log(s)
	for what, n := range s {
		if n < 100 {
			t.Errorf("%s: only %d", what, n)
		}
	}
}
