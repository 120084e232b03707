package faultcq

import "math/rand/v2"

// A Script describes a Device and its faults. The zero value has no faults.
type Script struct {
	Seed uint64

	// The next six fields are probabilities in percent. The comment of each says what
	// happens with this probability.

	Drop      int // an event is lost
	Duplicate int // an event arrives a second time
	// an event is delayed by 1 to MaxDelay ticks
	Delay    int
	Merge    int // an event is merged with a waiting event of the same CQ
	Spurious int // an event without a cause arrives in a tick
	// Arm causes an event at once if the CQ already has completions
	Eager int

	// MaxDelay is the largest delay of an event in ticks. Zero means 1.
	MaxDelay int
	// If ArmAfterTake is true, Arm has no effect while the channel has earlier events of
	// the CQ. An mlx5 device behaves like this.
	ArmAfterTake bool
	// If KeepStale is true, the channel keeps the events of a closed CQ.
	KeepStale bool

	MaxCQE   int  // largest depth of a CQ; zero means 1024
	Vectors  int  // completion vectors; zero means 1
	NoResize bool // Resize of a CQ fails

	// Between is called before and after each method of a CQ or channel. A test can add
	// completions or advance the time there. It may be nil.
	Between func()
}

// A random is a random number generator that decides which faults happen. The lock of the
// device protects it.
type random struct {
	rng *rand.Rand
}

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0))} }

// happens returns true with the given probability, in percent.
func (d random) happens(percent int) bool { return percent > 0 && d.rng.IntN(100) < percent }

// ticks returns a random number of ticks, at least 1.
func (d random) ticks(limit int) int { return 1 + d.rng.IntN(max(limit, 1)) }
