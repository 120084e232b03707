package main

import "time"

// A usage is what a process has used of the machine until some moment.
type usage struct {
	CPU      time.Duration `json:"cpu"`
	Switches uint64        `json:"switches"` // Context switches, voluntary or not.
	Allocs   uint64        `json:"allocs"`   // Objects allocated on the Go heap.
	RSS      int64         `json:"rss"`      // Resident memory in bytes.
}

func (u usage) plus(v usage) usage {
	return usage{u.CPU + v.CPU, u.Switches + v.Switches, u.Allocs + v.Allocs, u.RSS + v.RSS}
}

func (u usage) minus(v usage) usage {
	return usage{u.CPU - v.CPU, u.Switches - v.Switches, u.Allocs - v.Allocs, u.RSS - v.RSS}
}
