package main

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// placement assigns a processor to each loop. Without the flag -cpus, it pins only busy
// loops, and only if there are several processors.
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

// processorWarning returns a warning if several busy loops share a processor, and
// otherwise "". In the demo, both processes have busy loops.
func (o *options) processorWarning() string {
	if o.mode != "busy" || o.untilEOF {
		// In the demo, only the client prints the warning.
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
		// No warning is needed if there are enough processors. If their number is not known,
		// there is no warning either.
		return ""
	}
	return fmt.Sprintf("-mode busy: %d loops share %d processors and will delay each other", loops, len(different))
}

// start starts the loops of the engine. Its errors name the processors.
func start(engine *reactor.Engine, cpus []int) error {
	err := engine.Start()
	if err != nil && cpus != nil {
		return fmt.Errorf("loops on processors %v: %w", cpus, err)
	}
	return err
}
