package latency

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ParseCPUs parses a list of processors such as 0,2-3. An empty list is nil.
func ParseCPUs(list string) (cpus []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 12)
		to, err2 := strconv.ParseUint(last, 10, 12)
		if errors.Join(err1, err2) != nil || from > to {
			return nil, fmt.Errorf("%q: must be a list such as 0,2-3", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// AllowedCPUs returns the processors on which this process may run, or nil if they are
// not known. Only Linux tells. Source: proc_pid_status(5), for the calling thread.
func AllowedCPUs() []int {
	status, _ := os.ReadFile("/proc/thread-self/status")
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	cpus, _ := ParseCPUs(strings.TrimSpace(list))
	return cpus
}

// Place chooses a processor for each loop of a server or a client: the first ones of the
// list for the client, and the next ones for the server. A list that is too short begins
// again. Without a list, busy loops get the allowed processors if there are several.
// Other loops get none: the result is nil.
func Place(cpus []int, loops int, busy, server bool) (chosen []int) {
	if cpus == nil && busy {
		if cpus = AllowedCPUs(); len(cpus) < 2 {
			return nil
		}
	}
	first := 0
	if server {
		first = loops
	}
	for i := 0; i < loops && cpus != nil; i++ {
		chosen = append(chosen, cpus[(first+i)%len(cpus)])
	}
	return chosen
}

// Crowded returns a warning if so many busy loops have to share the processors of the
// list, or without a list the allowed ones. If the loops need not share them, or it is
// not known, the result is "".
func Crowded(cpus []int, loops int) string {
	if cpus == nil {
		cpus = AllowedCPUs()
	}
	different := len(slices.Compact(slices.Sorted(slices.Values(cpus))))
	if different == 0 || loops <= different {
		return ""
	}
	return fmt.Sprintf("%d loops share %d processors and will delay each other", loops, different)
}

// Loopback returns a loopback address for a server and one for its client, which no other
// process of the host uses. They differ, because on the wire path only one process can
// bind the UDP port of an address.
func Loopback() (server, client netip.Addr) {
	pid := os.Getpid()
	own := func(second byte) netip.Addr {
		return netip.AddrFrom4([4]byte{127, second + byte(pid>>16), byte(pid >> 8), byte(pid)})
	}
	// A process ID has at most 22 bits. The lower 16 bits are the last two bytes of the
	// address, and the upper 6 bits are added to one of these constants for the second.
	const servers, clients = 64, 128
	return own(servers), own(clients)
}
