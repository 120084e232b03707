package main

import (
	"fmt"
	"slices"
)

// A goal is a limit for a figure of this library, in most cases for its ratio to the
// figure of a peer.
type goal struct {
	ours Case
	// Case of the peer. If Peer is empty, the limit is for our figure itself.
	theirs Case
	metric metric
	limit  float64
}

// A metric is a figure of a row.
type metric struct {
	name string
	of   func(Row) float64
	// True if a larger figure is better.
	moreIsBetter bool
}

func metricP50() metric { return metric{"p50", func(r Row) float64 { return r.P50 }, false} }

func metricP99() metric { return metric{"p99", func(r Row) float64 { return r.P99 }, false} }

func metricRate() metric { return metric{"msgs/s", func(r Row) float64 { return r.MsgsPerSec }, true} }

func metricCPU() metric { return metric{"CPU", func(r Row) float64 { return r.CPU }, false} }

func metricAllocs() metric {
	return metric{"allocations", func(r Row) float64 { return r.Allocs }, false}
}

func metricMemory() metric {
	return metric{"KB a connection", func(r Row) float64 { return r.RSSPerConn / 1e3 }, false}
}

func metricTail() metric {
	return metric{"p99.9 / p50", func(r Row) float64 { return r.P999 / r.P50 }, false}
}

// goals lists the goals in the order of the output.
func goals() (all []goal) {
	add := func(ours, theirs Case, m metric, limit float64) {
		all = append(all, goal{ours, theirs, m, limit})
	}
	single := func(variant [3]string, workload string, size, inFlight, conns int) Case {
		return Case{Peer: variant[0], Path: variant[1], Mode: variant[2], Workload: workload, Size: size, InFlight: inFlight, Connections: conns}
	}
	versus := func(ours, theirs [3]string, workload string, size, inFlight, conns int, m metric, limit float64) {
		add(single(ours, workload, size, inFlight, conns), single(theirs, workload, size, inFlight, conns), m, limit)
	}
	local, wire, event := [3]string{"rdmaloop", "local", "busy"}, [3]string{"rdmaloop", "wire", "busy"}, [3]string{"rdmaloop", "local", "event"}
	ucx, udp, gnet := [3]string{"ucx", "posix", "busy"}, [3]string{"rawudp", "udp", "busy"}, [3]string{"gnet", "tcp", "event"}
	conn, stdlib := [3]string{"stream", "local", "adaptive"}, [3]string{"stdlib", "tcp", "event"}
	handlerEvent, handlerBusy := [3]string{"gnetrdma", "local", "event"}, [3]string{"gnetrdma", "local", "busy"}
	adaptive, handlerAdaptive := [3]string{"rdmaloop", "local", "adaptive"}, [3]string{"gnetrdma", "local", "adaptive"}

	versus(local, ucx, workPingPong, 64, 1, 1, metricP50(), 1.25)
	versus(local, ucx, workPingPong, 4<<10, 1, 1, metricP50(), 1.1)
	versus(local, ucx, workPingPong, 64<<10, 1, 1, metricP50(), 1.1)
	versus(local, ucx, workStream, 64, 32, 1, metricRate(), 1)
	versus(local, ucx, workStream, 64, 256, 1, metricRate(), 1)
	versus(local, ucx, workStream, 4<<10, 32, 1, metricRate(), 1)
	versus(local, ucx, workStream, 64<<10, 32, 1, metricRate(), 1)
	// Our READ and our WRITE are both compared with the WRITE of UCX.
	put := single(ucx, workWrite, 64, 1, 1)
	add(single(local, workRead, 64, 1, 1), put, metricP50(), 1.5)
	add(single(local, workWrite, 64, 1, 1), put, metricP50(), 1.5)
	add(single(local, workConnsActive, 64, 1, 1000), single(local, workConnsActive, 64, 1, 1), metricRate(), 1)
	add(single(local, workConnsIdle, 64, 1, 1000), Case{}, metricMemory(), 12)
	add(single(local, workConnsActive, 64, 1, 1000), Case{}, metricMemory(), 24)
	versus(wire, udp, workPingPong, 64, 1, 1, metricP50(), 1.15)
	versus(wire, udp, workPingPong, 4<<10, 1, 1, metricP50(), 1.15)
	versus(wire, gnet, workConnsActive, 64, 1, 1000, metricRate(), 1.3)
	versus(wire, gnet, workStream, 64<<10, 32, 1, metricRate(), 1.1)
	versus(wire, gnet, workPingPong, 64<<10, 1, 1, metricP50(), 0.7)
	versus(event, gnet, workPingPong, 64, 1, 1, metricP50(), 0.75)
	versus(event, gnet, workPingPong, 64, 1, 1, metricCPU(), 0.7)
	versus(local, gnet, workConnect, 64, 1, 1, metricP50(), 0.7)
	versus(wire, gnet, workConnect, 64, 1, 1, metricP50(), 0.8)
	versus(conn, stdlib, workPingPong, 64, 1, 1, metricP50(), 0.1)
	versus(conn, stdlib, workStream, 64<<10, 32, 1, metricRate(), 1.5)
	versus(conn, stdlib, workConnsActive, 64, 1, 1000, metricCPU(), 1)
	versus(handlerEvent, gnet, workPingPong, 64, 1, 1, metricP50(), 0.9)
	versus(handlerEvent, gnet, workPingPong, 64, 1, 1, metricP99(), 0.9)
	versus(handlerEvent, gnet, workPingPong, 64, 1, 1, metricCPU(), 0.9)
	versus(handlerBusy, gnet, workPingPong, 64, 1, 1, metricP50(), 0.03)
	for _, ours := range [][3]string{adaptive, handlerAdaptive} {
		versus(ours, gnet, workWorkers, 64, 1, 1, metricP50(), 0.6)
	}
	for _, ours := range [][3]string{event, handlerEvent} {
		versus(ours, gnet, workWorkers, 64, 1, 1, metricP50(), 0.8)
	}
	add(single(local, workConnect, 64, 1, 1), Case{}, metricAllocs(), 60)
	add(single(local, workPingPong, 64, 1, 1), Case{}, metricTail(), 2.5)
	return all
}

// goalPeers returns the names of the peers in the goals.
func goalPeers(all []goal) (names []string) {
	for _, g := range all {
		names = append(names, g.ours.Peer, g.theirs.Peer)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// name describes the goal. No two goals have the same name.
func (g goal) name() string {
	text := fmt.Sprintf("%s %s, %s", g.ours.label(), g.ours.title(), g.metric.name)
	switch {
	case g.theirs.Peer == "":
		return text
	case g.theirs.withoutPeer() == g.ours.withoutPeer():
		return text + " × " + g.theirs.label()
	}
	return text + " × " + g.theirs.label() + " " + g.theirs.title()
}

// ratio returns our figure divided by the peer's figure, or our figure if there is no
// peer. The second result is false if a figure is missing.
func (g goal) ratio(ours, theirs Row) (float64, bool) {
	figure, base := g.metric.of(ours), 1.
	if g.theirs.Peer != "" {
		base = g.metric.of(theirs)
	}
	return figure / base, figure > 0 && base > 0
}

// reached reports whether a ratio is within the limit.
func (g goal) reached(ratio float64) bool {
	if g.metric.moreIsBetter {
		return ratio >= g.limit
	}
	return ratio <= g.limit
}

// verdict returns the verdict for an interval: undecided if the limit lies in it.
func (g goal) verdict(low, high float64) string {
	switch atLow, atHigh := g.reached(low), g.reached(high); {
	case atLow != atHigh:
		return "undecided"
	case atLow:
		return "met"
	}
	return "missed"
}
