package latency

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Counters has the values of device counters, or their growth, by name.
type Counters map[string]uint64

// ReadCounters adds up the counters of all ports of all devices.
func ReadCounters(p verbs.Provider) Counters {
	sum := Counters{}
	devices, _ := p.Devices()
	for _, dev := range devices {
		for port := range dev.Attr().NumPorts {
			counters, _ := dev.Counters(uint8(port + 1))
			for _, c := range counters {
				sum[c.Name] += c.Value
			}
		}
	}
	return sum
}

// Since returns the growth of each counter since an earlier reading. Counters that have
// not grown are left out.
func (c Counters) Since(earlier Counters) Counters {
	more := Counters{}
	for name, n := range c {
		if n > earlier[name] {
			more[name] = n - earlier[name]
		}
	}
	return more
}

// Errors lists the counters of packets that were lost, damaged, rejected or
// retransmitted. The names differ between drivers, so Errors looks for typical words.
func (c Counters) Errors() string {
	words := regexp.MustCompile(`(?i)err|duplicate|out_of|icrc|retrans|drop|discard|timeout`)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if words.MatchString(name) {
			list = append(list, fmt.Sprintf("%s %d", name, c[name]))
		}
	}
	return strings.Join(list, ", ")
}
