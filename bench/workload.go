package main

import "time"

// The names of the workloads, in the order of measurement.
const (
	workPingPong = "pingpong" // Round trips of one message, one after another.
	// Messages in one direction, InFlight at a time. The server answers only some of
	// them.
	workStream      = "stream"
	workRead        = "read"         // One-sided READs of the server's memory.
	workWrite       = "write"        // One-sided WRITEs to the server's memory.
	workConnsIdle   = "conns-idle"   // Ping-pong on one connection, beside idle ones.
	workConnsActive = "conns-active" // Ping-pong on all connections.
	// Connects, makes one round trip and closes the connection, again and again.
	workConnect = "connect"
	workIdle    = "idle" // One round trip in every idleInterval.
	// Ping-pong with each loop of the server, from one client process for each loop.
	workLoops = "loops"
	// Ping-pong, in which another goroutine of the server makes each answer.
	workWorkers = "workers"
	// Ping-pong of processes as users start them.
	workUsual = "usual"
)

func workloads() []string {
	return []string{workPingPong, workStream, workRead, workWrite, workConnsIdle, workConnsActive, workConnect, workIdle, workLoops, workWorkers, workUsual}
}

const (
	// Time between two messages of workIdle. Arbitrary.
	idleInterval = 10 * time.Millisecond
	// workIdle sends few messages, so its measurements take this many times as long.
	idleFactor = 4
	// Message size in bytes of workloads that have only one size.
	smallSize = 64
	// Size in bytes of an answer in workStream, which has only the number of a message.
	ackSize = 8
)

// casesOf lists the cases of a workload without peer, path and mode.
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
		counts := []int{1, 100, 1000}
		if workload == workConnsIdle {
			counts = append(counts, 10_000)
		}
		if o.quick {
			counts = []int{100}
		}
		for _, conns := range counts {
			add(smallSize, 1, conns)
		}
	case workConnect, workIdle, workWorkers, workUsual:
		add(smallSize, 1, 1)
	case workLoops:
		for _, loops := range []int{1, 2, 4, 8} {
			add(smallSize, 1, loops)
			cases[len(cases)-1].Loops = loops
		}
	}
	return cases
}

// group returns the number of messages that share one answer of the server.
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

// pinned reports whether the processes run on processors of their own, with the timer slack
// that this gives them.
func (c Case) pinned() bool { return c.Workload != workWorkers && c.Workload != workUsual }

// blocks reports whether the workload can be measured with calls that block: these have no
// loops, and no WRITEs and READs.
func (c Case) blocks() bool {
	return !c.oneSided() && c.Workload != workLoops && c.Workload != workWorkers
}

// oneSided reports whether the workload uses READs or WRITEs. The server takes no part
// in them.
func (c Case) oneSided() bool { return c.Workload == workRead || c.Workload == workWrite }

// timed reports whether the time of each message is measured. Then only one message may
// be in flight on a connection.
func (c Case) timed() bool { return c.InFlight == 1 && c.Workload != workStream }
