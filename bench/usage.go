package main

import "time"

// A usage is what a process has used of the machine until some moment.
type usage struct {
	CPU      time.Duration `json:"cpu"`
	Switches uint64        `json:"switches"` // of context, voluntary or not
	Allocs   uint64        `json:"allocs"`   // objects on the Go heap
	RSS      int64         `json:"rss"`      // bytes present now
}

func (u usage) plus(v usage) usage {
	return usage{u.CPU + v.CPU, u.Switches + v.Switches, u.Allocs + v.Allocs, u.RSS + v.RSS}
}

func (u usage) minus(v usage) usage {
	return usage{u.CPU - v.CPU, u.Switches - v.Switches, u.Allocs - v.Allocs, u.RSS - v.RSS}
}
