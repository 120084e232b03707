package main

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// placement assigns a processor to each loop. The client's loops get the first processors
// of the list, and the server's loops get the next ones. If the flag -cpus is not set,
// placement pins loops only in busy mode, and only if there are at least two processors.
// With one processor, two busy loops that are pinned to it would delay each other.
func (o *options) placement() (client, server []int) {
	cpus := o.cpus
	if cpus == nil && o.mode == "busy" {
		cpus = allowedCPUs()
		if len(cpus) < 2 {
			return nil, nil
		}
	}
	if cpus == nil {
		return nil, nil
	}
	for i := range o.loops {
		client = append(client, cpus[i%len(cpus)])
		server = append(server, cpus[(o.loops+i)%len(cpus)])
	}
	return client, server
}

// processorWarning returns a warning if several busy loops have to share a processor, and
// otherwise "". In the demo, both processes have busy loops.
func (o *options) processorWarning() string {
	if o.mode != "busy" || o.untilEOF {
		// Loops that are not busy need no warning. The server of the demo gives no
		// warning either, because the client process has already printed it for both
		// processes.
		return ""
	}
	loops := o.loops
	if o.listen == "" && o.connect == "" {
		loops *= 2
	}
	usable := o.cpus
	if usable == nil {
		usable = allowedCPUs()
	}
	different := map[int]bool{}
	for _, cpu := range usable {
		different[cpu] = true
	}
	if len(different) == 0 || loops <= len(different) {
		// There is no warning if there are enough processors for all loops, or if the
		// number of processors is unknown.
		return ""
	}
	return fmt.Sprintf("-mode busy: %d loops share %d processors and will delay each other", loops, len(different))
}

// start starts the loops of the engine. If that fails, the error contains the list of
// processors: one reason for the failure may be that a loop cannot be pinned to its
// processor.
func start(engine *reactor.Engine, cpus []int) error {
	err := engine.Start()
	if err != nil && cpus != nil {
		return fmt.Errorf("loops on processors %v: %w", cpus, err)
	}
	return err
}
