package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// deviceCounters has the values of device counters, by name. Zeros are left out.
type deviceCounters map[string]uint64

// readCounters adds up the counters of all ports of all devices.
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

// since returns the growth of each counter since an earlier reading. Counters that have
// not grown are left out.
func (t deviceCounters) since(earlier deviceCounters) deviceCounters {
	more := deviceCounters{}
	for name, n := range t {
		if n > earlier[name] {
			more[name] = n - earlier[name]
		}
	}
	return more
}

// errorCounters lists the counters of packets that were lost, damaged, rejected or
// retransmitted. The names differ between drivers, so errorCounters looks for typical
// words.
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
