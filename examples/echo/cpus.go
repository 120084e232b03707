package main

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// placement assigns a processor to each loop: the first processors of the list to the
// client's loops, and the next to the server's. Without -cpus loops are pinned only in
// busy mode and only if there are two processors or more, because two busy loops on one
// processor would delay each other.
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

// processorWarning returns a warning if busy loops have to share processors, or "". The
// demo has two processes with busy loops.
func (o *options) processorWarning() string {
	if o.mode != "busy" || o.untilEOF {
		return "" // The client of the demo has printed the warning.
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
		return "" // If the processors are unknown there is no warning.
	}
	return fmt.Sprintf("-mode busy: %d loops share %d processors and will delay each other", loops, len(different))
}

// start starts the loops. An error names the processors, because pinning may have
// failed.
func start(engine *reactor.Engine, cpus []int) error {
	err := engine.Start()
	if err != nil && cpus != nil {
		return fmt.Errorf("loops on processors %v: %w", cpus, err)
	}
	return err
}
