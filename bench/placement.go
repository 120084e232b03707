package main

import "fmt"

// placement returns a processor for each client and for each loop of the server. If there
// are too few processors, both results are empty, for no pinning.
func placement(loops int) (clients, server []int) {
	all := processorList()
	if len(all) < processorsFor(loops) {
		return nil, nil
	}
	for i := range loops {
		clients = append(clients, all[2*i])
		server = append(server, all[2*i+1])
	}
	return clients, server
}

// processorsFor returns the number of processors that a server with some loops and its
// clients need, each with a processor of its own.
func processorsFor(loops int) int { return 2 * loops }

// processors returns the processors of one client and of a server with one loop. If there
// is only one processor, both results are -1.
func processors() (client, server int) {
	clients, servers := placement(1)
	if len(clients) == 0 {
		return -1, -1
	}
	return clients[0], servers[0]
}

// tooFewProcessors says which cases of workLoops can not be measured with the given
// number of processors. It returns "" if all can be, or if the options do not select
// workLoops.
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
