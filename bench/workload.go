package main

import "time"

// The workloads, in the order of measurement. Except in one-sided workloads, the server
// answers every message, or the last of each group of messages.
const (
	workPingPong    = "pingpong"     // One round trip after another.
	workStream      = "stream"       // Messages in one direction, InFlight of them at a time.
	workRead        = "read"         // One-sided READ.
	workWrite       = "write"        // One-sided WRITE.
	workConnsIdle   = "conns-idle"   // Ping-pong on one connection while the others are idle.
	workConnsActive = "conns-active" // Ping-pong on all connections.
	workConnect     = "connect"      // Connect, one round trip, close.
	workIdle        = "idle"         // One round trip every idleInterval.
)

func workloads() []string {
	return []string{workPingPong, workStream, workRead, workWrite, workConnsIdle, workConnsActive, workConnect, workIdle}
}

const (
	// Time between two messages of workIdle. Arbitrary.
	idleInterval = 10 * time.Millisecond
	idleFactor   = 4  // Factor of the duration of workIdle, which has few messages.
	smallSize    = 64 // Message size of workloads that do not vary it, in bytes.
	ackSize      = 8  // Size of the answers of a stream, and of the number in a message, in bytes.
)

// casesOf lists the cases of a workload. The caller fills in peer, path and mode.
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

// group returns the number of messages to one answer. In a stream it is a quarter of
// the messages in flight, so that three quarters of them are always outstanding.
func (c Case) group() int {
	if c.Workload == workStream {
		return max(1, c.InFlight/4)
	}
	return 1
}

// answer returns the size of an answer in bytes.
func (c Case) answer() int {
	if c.Workload == workStream {
		return ackSize
	}
	return c.Size
}

// oneSided reports whether the workload needs no work of the server's program.
func (c Case) oneSided() bool { return c.Workload == workRead || c.Workload == workWrite }

// timed reports whether single messages are timed: only one is in flight.
func (c Case) timed() bool { return c.InFlight == 1 && c.Workload != workStream }
