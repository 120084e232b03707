package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A tally is what devices have counted, by the counters' names, without zeros.
type tally map[string]uint64

// count adds up the ports of all devices. Those that count nothing add nothing.
func count(p verbs.Provider) tally {
	sum := tally{}
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

func (t tally) add(counters []verbs.Counter) {
	for _, c := range counters {
		if c.Value > 0 {
			t[c.Name] += c.Value
		}
	}
}

// since is what was counted after before.
func (t tally) since(before tally) tally {
	more := tally{}
	for name, n := range t {
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}

// trouble names the counters that a quiet network leaves alone, and is empty when it
// was one. Drivers have names of their own; these words are in those that tell of
// something lost, damaged, refused or sent again.
func (t tally) trouble() string {
	words := []string{"err", "duplicate", "out_of", "icrc", "retrans", "drop", "discard", "timeout"}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(name), word) }) {
			list = append(list, fmt.Sprintf("%s %d", name, t[name]))
		}
	}
	return strings.Join(list, ", ")
}
