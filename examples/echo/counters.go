package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// deviceCounters are values of device counters by name, without zeros.
type deviceCounters map[string]uint64

// readCounters adds up the counters of the ports of all devices. Devices without
// counters add nothing.
func readCounters(p verbs.Provider) deviceCounters {
	sum := deviceCounters{}
	devices, _ := p.Devices()
	for _, dev := range devices {
		reader, ok := dev.(verbs.CounterReader)
		for port := 1; ok && port <= dev.Attr().NumPorts; port++ {
			counters, _ := reader.Counters(uint8(port))
			sum.add(counters)
		}
	}
	return sum
}

func (t deviceCounters) add(counters []verbs.Counter) {
	for _, c := range counters {
		if c.Value > 0 {
			t[c.Name] += c.Value
		}
	}
}

// since returns by how much counters have grown after before.
func (t deviceCounters) since(before deviceCounters) deviceCounters {
	more := deviceCounters{}
	for name, n := range t {
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}

// errorCounters lists the counters that do not grow on a network without loss. Drivers
// choose the names of their counters. The words are parts of the names of counters of
// lost, damaged, rejected and retransmitted packets.
func (t deviceCounters) errorCounters() string {
	words := []string{"err", "duplicate", "out_of", "icrc", "retrans", "drop", "discard", "timeout"}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(name), word) }) {
			list = append(list, fmt.Sprintf("%s %d", name, t[name]))
		}
	}
	return strings.Join(list, ", ")
}
