package main

import "time"

// A usage has the resource counters of a process at one moment.
type usage struct {
	CPU time.Duration `json:"cpu"`
	// Voluntary and involuntary context switches.
	Switches uint64 `json:"switches"`
	// Objects that were allocated on the Go heap.
	Allocs uint64 `json:"allocs"`
	RSS    int64  `json:"rss"` // resident memory in bytes
}

func (u usage) plus(v usage) usage {
	return usage{u.CPU + v.CPU, u.Switches + v.Switches, u.Allocs + v.Allocs, u.RSS + v.RSS}
}

func (u usage) minus(v usage) usage {
	return usage{u.CPU - v.CPU, u.Switches - v.Switches, u.Allocs - v.Allocs, u.RSS - v.RSS}
}
