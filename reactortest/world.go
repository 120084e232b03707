//go:build linux

package reactortest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/sim"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
)

// A World has hosts, the network between them, and a clock. Only the goroutine of the test
// and the callbacks of its engines may use it. Callbacks let time pass with For only.
type World struct {
	t         *testing.T
	seed      uint64
	sim       *sim.World
	rng       *rand.Rand
	hosts     []*Host
	processes int // number of processes that were made
	faults    Faults
	links     map[link]Faults
	cut       map[link]bool
	returned  bool // true if the function of the test has returned
}

// A link is a direction between two hosts.
type link struct{ from, to *sim.Host }

// Faults are what happens to the packets in one direction between two hosts. Loss,
// Duplicate, Damage and Reorder are probabilities from 0 to 1. The zero value is a network
// without faults and without delay.
type Faults struct {
	Loss      float64 // a packet does not arrive
	Duplicate float64 // a packet arrives twice
	Damage    float64 // a packet arrives with one flipped bit
	// A packet gets an additional delay, and later packets may overtake it.
	Reorder float64
	Delay   time.Duration // delay of every packet
	Jitter  time.Duration // largest additional delay of reordered packets and duplicates
}

// Run calls fn with a new world. The functions time.Now, time.Sleep and the like use the
// clock of the world meanwhile, because fn runs in a bubble of package testing/synctest. So
// fn has to use its parameter t, and can not call t.Run or t.Parallel.
//
// When fn has returned, Run shuts down the engines of the world and closes its devices. It
// is an error if that takes longer than a minute, if a loop has lost a wake-up
// (Stats.Rescues), or if a device can not be closed. If the test has failed, Run prints the
// seed, and the last callbacks with their times.
func Run(t *testing.T, seed uint64, fn func(t *testing.T, w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{
			t: t, seed: seed, sim: sim.New(seed), rng: rand.New(rand.NewPCG(seed, testStream)),
			links: make(map[link]Faults), cut: make(map[link]bool),
		}
		w.sim.Links = w.linkConfig
		t.Cleanup(w.close)
		fn(t, w)
		w.returned = true
	})
}

// testStream distinguishes the random numbers of the test from those of the simulation.
const testStream = 0x74657374

// seedFlag is the seed that Seeds runs instead of its own, or 0.
var seedFlag = flag.Uint64("reactortest.seed", 0, "the only seed that reactortest.Seeds runs; 0: all")

// Seeds calls Run for the seeds from 1 to n, until the test has failed. The flag
// -reactortest.seed of the test program makes it run one seed only.
func Seeds(t *testing.T, n int, fn func(t *testing.T, w *World)) {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		Run(t, seed, fn)
	}
}

// close ends what still runs, after the cleanups of the test. What was stopped goes on. If
// the function of the test has not returned, or the test has failed, nothing is shut down.
func (w *World) close() {
	w.t.Helper()
	defer w.sim.Close()
	if w.returned && !w.t.Failed() {
		for _, h := range w.hosts {
			h.Continue()
		}
		for _, h := range w.hosts {
			h.close()
		}
	}
	if !w.returned || w.t.Failed() {
		w.t.Logf("%s\nThis was seed %d: repeat it with -run '^%s$' -reactortest.seed=%d",
			strings.Join(w.sim.Lines(), "\n"), w.seed, w.t.Name(), w.seed)
	}
}

// linkConfig returns the present faults of a link.
func (w *World) linkConfig(from, to *sim.Host) netsim.Config {
	l := link{from, to}
	if w.cut[l] {
		return netsim.Config{Drop: 1}
	}
	f, ok := w.links[l]
	if !ok {
		f = w.faults
	}
	return netsim.Config{
		Drop: f.Loss, Duplicate: f.Duplicate, Corrupt: f.Damage, Reorder: f.Reorder, Delay: f.Delay, Jitter: f.Jitter,
	}
}

// Now returns the time since the beginning of Run.
func (w *World) Now() time.Duration { return w.sim.Now() }

// Rand returns the random numbers of the test. The seed determines them.
func (w *World) Rand() *rand.Rand { return w.rng }

// Digest returns a number that is the same for two runs in which the same has happened: the
// same callbacks and packets, in the same order, at the same times.
func (w *World) Digest() uint64 { return w.sim.Digest() }

// Logf adds a line to the log that Run prints if the test fails.
func (w *World) Logf(format string, args ...any) { w.sim.Log("test: " + fmt.Sprintf(format, args...)) }

// For lets the given time pass. In a callback of an engine it is a callback that takes so
// long: the other loops run meanwhile.
func (w *World) For(d time.Duration) { w.sim.RunUntil(w.Now() + d) }

// Until lets time pass until cond returns true. The test fails if that takes more than the
// given time, or if nothing can happen any more.
func (w *World) Until(limit time.Duration, cond func() bool) {
	w.t.Helper()
	end, is := w.Now()+limit, false
	w.sim.Run(func() bool { is = cond(); return is || w.Now() > end })
	if !is {
		w.t.Fatalf("not within %v", limit)
	}
}

// Settle lets time pass until no packet is on its way and no loop has work. Timers may be
// set.
func (w *World) Settle() { w.sim.Settle() }

// SetFaults sets the faults of all directions for which Host.SetFaultsTo has set none.
func (w *World) SetFaults(f Faults) { w.faults = f }

// Cut loses all packets between two hosts, from now on.
func (w *World) Cut(a, b *Host) { w.setCut(a, b, true) }

// Heal ends Cut.
func (w *World) Heal(a, b *Host) { w.setCut(a, b, false) }

func (w *World) setCut(a, b *Host, is bool) {
	w.Logf("the network between %s and %s is cut: %v", a.Name(), b.Name(), is)
	w.cut[link{a.sim, b.sim}], w.cut[link{b.sim, a.sim}] = is, is
}

// shutdownLimit is how long the engines may take to end at the end of a test.
const shutdownLimit = time.Minute

func shutdownContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), shutdownLimit)
}
