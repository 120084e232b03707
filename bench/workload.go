package main

import "time"

// The workloads, in the order in which they are measured. In all but the
// one-sided ones the server returns every message, or every few, cut short.
const (
	workPingPong    = "pingpong"     // one message there and back, then the next
	workStream      = "stream"       // one way, so many in flight
	workRead        = "read"         // one-sided READ
	workWrite       = "write"        // one-sided WRITE
	workConnsIdle   = "conns-idle"   // ping-pong on one connection while the others are idle
	workConnsActive = "conns-active" // ping-pong on all of them
	workConnect     = "connect"      // connect, one message there and back, close
	workIdle        = "idle"         // a message there and back every idleInterval
)

func workloads() []string {
	return []string{workPingPong, workStream, workRead, workWrite, workConnsIdle, workConnsActive, workConnect, workIdle}
}

const (
	idleInterval = 10 * time.Millisecond
	idleFactor   = 4 // idle is measured so much longer: it has few messages
	smallSize    = 64
	ackSize      = 8 // of the answers of a stream; and of the number in a message
)

// casesOf lists what is to be measured of a workload; peer, path and mode are to
// be filled in.
func casesOf(workload string, o options) (cases []Case) {
	add := func(size, inFlight, conns int) {
		c := Case{Workload: workload, Size: size, InFlight: inFlight, Connections: conns, For: o.duration}
		if workload == workIdle {
			c.For *= idleFactor
		}
		cases = append(cases, c)
	}
	switch workload {
	case workPingPong:
		for _, size := range o.sizesOr(8, 64, 1<<10, 4<<10, 64<<10) {
			add(size, 1, 1)
		}
	case workRead, workWrite:
		for _, size := range o.sizesOr(64, 4<<10, 64<<10) {
			add(size, 1, 1)
		}
	case workStream:
		for _, size := range o.sizesOr(64, 64<<10) {
			for _, inFlight := range []int{1, 32, 256} {
				add(size, inFlight, 1)
			}
		}
	case workConnsIdle, workConnsActive:
		for _, conns := range []int{1, 100, 1000} {
			if !o.quick || conns == 100 {
				add(smallSize, 1, conns)
			}
		}
	case workConnect, workIdle:
		add(smallSize, 1, 1)
	}
	return cases
}

// group is of how many messages one is answered: in a stream so many that the
// sender always has three quarters of its window on the way.
func (c Case) group() int {
	if c.Workload == workStream {
		return max(1, c.InFlight/4)
	}
	return 1
}

// answer is the size of an answer.
func (c Case) answer() int {
	if c.Workload == workStream {
		return ackSize
	}
	return c.Size
}

// oneSided reports whether the server's program takes no part.
func (c Case) oneSided() bool { return c.Workload == workRead || c.Workload == workWrite }

// timed reports whether single messages can be timed: there is one on the way.
func (c Case) timed() bool { return c.InFlight == 1 && c.Workload != workStream }
