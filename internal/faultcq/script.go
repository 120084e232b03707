package faultcq

import "math/rand/v2"

// A Script describes a Device and its faults. The zero value is a device without
// faults.
type Script struct {
	Seed uint64

	// Probabilities in percent.
	Drop      int // Probability that an event is lost.
	Duplicate int // Probability that an event arrives twice.
	Delay     int // Probability that an event arrives 1 to MaxDelay ticks later.
	Merge     int // Probability that an event is merged with a waiting event of the same CQ.
	Spurious  int // Probability of a spurious event in a tick.
	Eager     int // Probability that Arm of a CQ that is not empty raises an event at once.

	// MaxDelay is the largest delay in ticks of Device.Advance. Zero means 1.
	MaxDelay int
	// ArmAfterTake makes Arm have no effect while an event of the CQ has not been
	// taken. mlx5 behaves so.
	ArmAfterTake bool
	// KeepStale keeps the events of a closed CQ in the channel.
	KeepStale bool

	MaxCQE   int  // Largest depth of a CQ. Zero means 1024.
	Vectors  int  // Completion vectors. Zero means 1.
	NoResize bool // CQs cannot be resized.

	// Between, if not nil, runs before and after each method of a CQ or channel. A test
	// uses it to add completions or to advance the time at any step of its caller.
	Between func()
}

// A random source decides which faults happen. The device's lock guards it.
type random struct {
	rng *rand.Rand
}

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0))} }

// happens returns true with a probability of percent.
func (d random) happens(percent int) bool { return percent > 0 && d.rng.IntN(100) < percent }

// ticks returns a random delay from 1 to limit.
func (d random) ticks(limit int) int { return 1 + d.rng.IntN(max(limit, 1)) }
