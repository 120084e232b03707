package main

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// placement returns a processor for each client and for each loop of the server. If
// there are too few processors, it returns none, and nothing is pinned.
func placement(loops int) (clients, server []int) {
	all := latency.AllowedCPUs()
	if len(all) < processorsFor(loops) {
		return nil, nil
	}
	for i := range loops {
		clients = append(clients, all[2*i])
		server = append(server, all[2*i+1])
	}
	return clients, server
}

// processorsFor returns how many processors a server and its clients need, so that each
// loop and each client has its own.
func processorsFor(loops int) int { return 2 * loops }

// processors returns a processor for one client and one for a server with one loop. If
// there is only one processor, both results are -1.
func processors() (client, server int) {
	clients, servers := placement(1)
	if len(clients) == 0 {
		return -1, -1
	}
	return clients[0], servers[0]
}

// tooFewProcessors returns a text that says which cases of workLoops need more
// processors than there are. It returns "" if all requested cases can be measured.
func tooFewProcessors(o options, processors int) string {
	if !o.wants(workLoops) {
		return ""
	}
	for _, c := range casesOf(workLoops, o) {
		if need := processorsFor(c.Loops); need > processors {
			return fmt.Sprintf("the scaling to %d loops or more is not measured: it needs %d processors, and this program may run on %d", c.Loops, need, processors)
		}
	}
	return ""
}
