package faultcq

import "math/rand/v2"

// A Script describes a Device and its faults. The zero value has no faults.
type Script struct {
	Seed uint64

	// The next six fields are probabilities in percent.
	Drop      int // Probability that an event is lost.
	Duplicate int // Probability that an event arrives a second time.
	// Probability that an event is delayed by 1 to MaxDelay ticks.
	Delay    int
	Merge    int // Probability that an event is merged with a waiting event of the same CQ.
	Spurious int // Probability that a spurious event arrives in a tick.
	// Probability that Arm raises an event at once if the CQ already has completions.
	Eager int

	// MaxDelay is the largest delay of an event in ticks. Zero means 1.
	MaxDelay int
	// With ArmAfterTake, Arm has no effect before Next has taken all earlier events of
	// the CQ. An mlx5 device behaves like this.
	ArmAfterTake bool
	// KeepStale makes the channel keep the events of a CQ that has been closed.
	KeepStale bool

	MaxCQE   int  // Largest depth of a CQ. Zero means 1024.
	Vectors  int  // Number of completion vectors. Zero means 1.
	NoResize bool // True if Resize of a CQ fails.

	// Between, if not nil, is called before and after each method of a CQ or channel. A
	// test can add completions or advance the time there.
	Between func()
}

// A random decides which faults happen. The device's lock protects it.
type random struct {
	rng *rand.Rand
}

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0))} }

// happens returns true with the given probability, in percent.
func (d random) happens(percent int) bool { return percent > 0 && d.rng.IntN(100) < percent }

// ticks returns a random number of ticks, from 1 to the limit.
func (d random) ticks(limit int) int { return 1 + d.rng.IntN(max(limit, 1)) }
