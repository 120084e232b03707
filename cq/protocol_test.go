package cq_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var seedFlag = flag.Uint64("seed", 0, "run TestProtocol with this seed only")

const (
	seeds         = 4000
	completions   = 150 // of one run
	maxDelay      = 10  // ticks
	safetyTimeout = 25  // ticks; longer than any delay
	maxTurns      = 100 * completions
)

// TestProtocol runs the owner's loop in virtual time against a device that
// completes work requests at any point between two steps of the protocol, and
// loses, repeats, delays, merges and invents events. It looks into the device
// whenever the loop sleeps: a completion that waits must have an event to come,
// unless the script lost that event.
func TestProtocol(t *testing.T) {
	first, last := uint64(1), uint64(seeds)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	sum := tally{}
	for seed := first; seed <= last; seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.run()
			sum.add(w)
		})
		if !ok {
			t.Fatalf("to see it again: go test -run TestProtocol -seed %d", seed)
		}
	}
	if *seedFlag == 0 {
		sum.check(t)
	}
}

// A world is one run: the device, the loop, and what the loop is owed.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	script *faultcq.Script
	dev    *faultcq.Device
	group  *cq.Group
	queues []*lane

	rate    int  // percent of the steps between which completions are made
	left    int  // completions still to be made
	calm    bool // the device does nothing on its own
	sleeps  int
	rescues int // as the test counts them
	churned int // queues closed on the way
}

// A lane is a queue; its completions carry the numbers from 0.
type lane struct {
	queue     *cq.Queue
	cq        *faultcq.CQ
	made, got uint64
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), left: completions}
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
		Between:      w.between,
	}
	w.group, w.dev = newGroup(t, w.script, &cq.Config{
		Batch:    1 + w.rng.IntN(8),
		AckEvery: 1 + w.rng.IntN(5),
	})
	for range 1 + w.rng.IntN(4) {
		w.queues = append(w.queues, w.newLane())
	}
	return w
}

// chance is 0 half of the time, else up to 60 percent.
func (w *world) chance() int { return max(0, w.rng.IntN(120)-60) }

func (w *world) in(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) newLane() *lane {
	depth := 1 + w.rng.IntN(16)
	q, err := w.group.NewQueue(depth)
	w.ok(err)
	w.ok(q.Reserve(depth))
	return &lane{queue: q, cq: deviceCQ(q)}
}

// between is what happens while the loop goes from one step to the next.
func (w *world) between() {
	if w.calm {
		return
	}
	if w.in(w.rate) {
		w.complete()
	}
	if w.in(20) {
		w.dev.Advance()
	}
}

// complete makes a few completions on one queue, as many as were reserved.
func (w *world) complete() {
	if len(w.queues) == 0 {
		return
	}
	l := w.queues[w.rng.IntN(len(w.queues))]
	for range 1 + w.rng.IntN(3) {
		if w.left == 0 || l.cq.Waiting() == l.cq.Depth() {
			return
		}
		l.cq.Complete(verbs.WC{ID: l.made})
		l.made++
		w.left--
	}
}

// run is the owner's loop, as the package comment draws it.
func (w *world) run() {
	timedOut := false
	for turn := 0; !w.done(); turn++ {
		if turn == maxTurns {
			w.t.Fatalf("%d completions are still not delivered", w.owed())
		}
		found := w.poll()
		w.calm = false
		if found && timedOut {
			w.group.Rescued()
			w.rescues++
		}
		timedOut = false
		if found || w.in(30) { // or it spins
			w.churn()
			continue
		}
		busy, err := w.group.Arm()
		w.ok(err)
		if !busy {
			timedOut = w.sleep()
		}
	}
	w.close()
}

// poll takes a batch from each queue and checks that it is the next one.
func (w *world) poll() (found bool) {
	for i, l := range w.queues {
		wcs, err := l.queue.Poll()
		w.ok(err)
		for _, wc := range wcs {
			if wc.ID != l.got {
				w.t.Fatalf("queue %d: completion %d came when %d was next", i, wc.ID, l.got)
			}
			l.got++
		}
		found = found || len(wcs) > 0
	}
	return found
}

// sleep waits for the descriptor, and consumes. It reports whether the safety
// timeout ended it. Near the timeout nothing new happens until the polls after
// it are over: it would look like a lost event.
func (w *world) sleep() (timedOut bool) {
	w.sleeps++
	for tick := range safetyTimeout {
		if w.readable() {
			w.consume()
			return false
		}
		w.mustHaveReason()
		w.dev.Advance()
		if tick < safetyTimeout-maxDelay {
			w.between()
		}
	}
	timedOut = !w.readable()
	w.calm = timedOut
	w.consume()
	return timedOut
}

// mustHaveReason fails when a completion waits that no event will tell of.
func (w *world) mustHaveReason() {
	for i, l := range w.queues {
		if n := l.cq.Waiting(); n > 0 && !l.cq.EventDue() && !l.cq.EventLost() {
			w.t.Fatalf("asleep with %d completions on queue %d and no event to come", n, i)
		}
	}
}

func (w *world) readable() bool {
	yes, err := w.dev.Readable()
	w.ok(err)
	return yes
}

func (w *world) consume() {
	_, err := w.group.Consume()
	w.ok(err)
	if w.in(50) { // at other times it does no harm
		_, err = w.group.Consume()
		w.ok(err)
	}
}

// churn now and then closes a queue that has delivered all, for a new one.
func (w *world) churn() {
	i := w.rng.IntN(len(w.queues))
	l := w.queues[i]
	if !w.in(5) || l.got != l.made {
		return
	}
	w.calm = true // its QP is gone
	w.closeLane(l)
	w.queues[i] = w.newLane()
	w.churned++
	w.calm = false
}

func (w *world) closeLane(l *lane) {
	w.ok(l.queue.Close())
	if taken, acked := l.cq.Events(); taken != acked {
		w.t.Fatalf("%d events taken, %d given back", taken, acked)
	}
}

func (w *world) owed() (n uint64) {
	for _, l := range w.queues {
		n += l.made - l.got
	}
	return n
}

func (w *world) done() bool { return w.left == 0 && w.owed() == 0 }

// close ends the run and compares the counters with what was seen.
func (w *world) close() {
	for _, l := range w.queues {
		w.closeLane(l)
	}
	w.ok(w.group.Close())
	if n := w.dev.Open(); n != 0 {
		w.t.Fatalf("%d objects are still open", n)
	}
	s, c := w.group.Stats(), w.dev.Counts()
	w.equal("completions", s.Completions, completions)
	w.equal("events not stale", s.Events-s.StaleEvents, s.AckedEvents)
	w.equal("rescues", s.Rescues, uint64(w.rescues))
	w.equal("refusals", s.Refusals, 0)
	if c.Dropped == 0 && s.Rescues > 0 {
		w.t.Fatalf("%d rescues, but no event was lost", s.Rescues)
	}
	// An arm needs a new queue, an event or a rescue before it.
	made := uint64(len(w.queues) + w.churned)
	if most := made + s.Events + s.Rescues*uint64(len(w.queues)); s.Arms > most {
		w.t.Fatalf("armed %d times, where %d would do", s.Arms, most)
	}
}

func (w *world) ok(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

func (w *world) equal(what string, got, want uint64) {
	if got != want {
		w.t.Helper()
		w.t.Fatalf("%s: %d, not %d", what, got, want)
	}
}

// A tally shows that the runs met what they are there to meet.
type tally map[string]uint64

func (s tally) add(w *world) {
	c, g := w.dev.Counts(), w.group.Stats()
	s["sleeps"] += uint64(w.sleeps)
	s["queues closed"] += uint64(w.churned)
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
