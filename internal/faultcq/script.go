package faultcq

import "math/rand/v2"

// A Script says what a Device is like and what it does to events. The zero
// value is a device without faults.
type Script struct {
	Seed uint64

	// Chances in percent.
	Drop      int // an event never comes
	Duplicate int // an event comes twice
	Delay     int // an event comes MaxDelay ticks later at most
	Merge     int // an event joins one of the same CQ that still waits
	Spurious  int // an event comes for nothing, at each tick
	Eager     int // arming a CQ that is not empty raises an event at once

	// MaxDelay is in ticks of Device.Advance; zero means 1.
	MaxDelay int
	// ArmAfterTake leaves an arm without effect as long as an earlier event
	// of the CQ has not been taken, as mlx5 does.
	ArmAfterTake bool
	// KeepStale leaves the events of a closed CQ in the channel.
	KeepStale bool

	MaxCQE   int  // completions of one CQ; zero means 1024
	Vectors  int  // completion vectors; zero means 1
	NoResize bool // CQs can not be resized

	// Between, if not nil, runs before and after each call of a CQ's or
	// channel's methods, so that the world can move on at any point of the
	// caller's protocol.
	Between func()
}

// dice decide what happens; they are rolled under the device's lock.
type dice struct {
	rng *rand.Rand
}

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0))} }

// roll is true in percent of 100 cases.
func (d dice) roll(percent int) bool { return percent > 0 && d.rng.IntN(100) < percent }

// ticks is from 1 to limit.
func (d dice) ticks(limit int) int { return 1 + d.rng.IntN(max(limit, 1)) }
