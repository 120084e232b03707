package main

import "time"

// Names of the workloads, in the order of measurement. In workStream the server answers
// only the last message of each group.
const (
	workPingPong = "pingpong" // Round trips of one message, one after another.
	// Messages in one direction, with InFlight messages in flight.
	workStream      = "stream"
	workRead        = "read"         // One-sided READs of the server's memory.
	workWrite       = "write"        // One-sided WRITEs to the server's memory.
	workConnsIdle   = "conns-idle"   // Ping-pong on one connection while the others are idle.
	workConnsActive = "conns-active" // Ping-pong on all connections.
	// Connects, makes one round trip, and closes the connection, repeatedly.
	workConnect = "connect"
	workIdle    = "idle" // Makes one round trip in every idleInterval.
	// Ping-pong on one connection to each loop of the server, from one client process each.
	workLoops = "loops"
)

func workloads() []string {
	return []string{workPingPong, workStream, workRead, workWrite, workConnsIdle, workConnsActive, workConnect, workIdle, workLoops}
}

const (
	// Time from one message of workIdle to the next. Arbitrary.
	idleInterval = 10 * time.Millisecond
	// A measurement of workIdle takes idleFactor times as long as others, because
	// workIdle sends few messages.
	idleFactor = 4
	// Message size in bytes of workloads with one size.
	smallSize = 64
	// ackSize is the size in bytes of an answer in workStream. Such an answer is only
	// the number of a message.
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
	case workConnect, workIdle:
		add(smallSize, 1, 1)
	case workLoops:
		for _, loops := range []int{1, 2, 4, 8} {
			add(smallSize, 1, loops)
			cases[len(cases)-1].Loops = loops
		}
	}
	return cases
}

// group returns the number of messages for which the server sends one answer. In a
// stream the number is a quarter of InFlight.
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

// oneSided reports whether the workload uses READs or WRITEs, which need no program on
// the server.
func (c Case) oneSided() bool { return c.Workload == workRead || c.Workload == workWrite }

// timed reports whether each single message is timed. At most one may then be in flight
// on a connection.
func (c Case) timed() bool { return c.InFlight == 1 && c.Workload != workStream }
