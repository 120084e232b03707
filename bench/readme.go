package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Defaults of a run with -readme. The measurements are short, so that the processors
// rarely move during one, and many, so that each case meets each state several times.
const (
	readmeRounds   = 25
	readmeDuration = 120 * time.Millisecond
)

// readmePeers returns the peers in the plots that README.md shows.
func readmePeers() []string {
	return []string{"rdmaloop", "ucx", "cacheline", "memcpy", "rawudp", "gnet", "stdlib"}
}

// readmeSeries returns the lines of the table in README.md: the label and the name of
// each.
func readmeSeries() [][2]string {
	return [][2]string{
		{"rdmaloop/local/busy", "rdmaloop, shared memory, busy"},
		{"ucx/posix/busy", "UCX, shared memory, polling"},
		{"cacheline/memory/busy", "floor: a cache line between two processors and back"},
		{"rdmaloop/wire/busy", "rdmaloop, RoCEv2 over UDP, busy"},
		{"ucx/tcp/busy", "UCX, TCP, polling"},
		{"rawudp/udp/busy", "floor: UDP sockets, polling"},
		{"rdmaloop/local/event", "rdmaloop, shared memory, event"},
		{"rdmaloop/wire/event", "rdmaloop, RoCEv2 over UDP, event"},
		{"gnet/tcp/event", "gnet, TCP"},
		{"stdlib/tcp/event", "package net, TCP"},
	}
}

// forReadme returns the options with the defaults of a run with -readme.
func (o options) forReadme() options {
	o.duration, o.rounds = cmp.Or(o.duration, readmeDuration), cmp.Or(o.rounds, readmeRounds)
	if len(o.peers) == 0 {
		o.peers = readmePeers()
	}
	if len(o.workloads) == 0 {
		o.workloads = []string{workPingPong, workStream}
	}
	if len(o.sizes) == 0 {
		o.sizes = []int{smallSize, 4 << 10, 64 << 10}
	}
	return o
}

// readmeInFlight is the number of messages in flight in the last column of the table.
const readmeInFlight = 256

// printReadme prints the table of README.md, and the rounds from which it comes. A figure
// is left out if it has no round in the common state.
func printReadme(w io.Writer, rows []Row) error {
	same, others := sameState(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !r.inReadme() }))
	find := func(label, workload string) (found Row) {
		for _, r := range same {
			if r.label() == label && r.Workload == workload {
				found = r
			}
		}
		return found
	}
	grid := [][]string{{"64 bytes", "p50", "p99", "CPU a message", "× gnet", "× floor", fmt.Sprintf("messages/s, %d in flight", readmeInFlight)}}
	for _, s := range readmeSeries() {
		trip, stream := find(s[0], workPingPong), find(s[0], workStream)
		grid = append(grid, []string{
			s[1], shortMicros(trip.P50), shortMicros(trip.P99), shortMicros(trip.CPU),
			formatRatio(trip.RatioToGnet), formatRatio(trip.RatioToFloor), formatSI(stream.MsgsPerSec),
		})
	}
	var b strings.Builder
	markdown(&b, grid)
	if text := caption(same); text != "" {
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	if names := tooFew(same, others); len(names) > 0 {
		fmt.Fprintf(&b, "\nfewer than %d such rounds: %s\n", enoughRounds, strings.Join(names, "; "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inReadme reports whether the table of README.md shows a case.
func (c Case) inReadme() bool {
	return c.Size == smallSize &&
		(c.Workload == workPingPong || c.Workload == workStream && c.InFlight == readmeInFlight) &&
		slices.ContainsFunc(readmeSeries(), func(s [2]string) bool { return s[0] == c.label() })
}

// shortMicros formats nanoseconds as microseconds with two digits.
func shortMicros(ns float64) string {
	switch us := ns / 1e3; {
	case us <= 0:
		return ""
	case us < 0.995:
		return fmt.Sprintf("%.2f µs", us)
	case us < 9.95:
		return fmt.Sprintf("%.1f µs", us)
	default:
		return fmt.Sprintf("%.0f µs", us)
	}
}
