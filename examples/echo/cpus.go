package main

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// placement gives each loop a processor of its own: the client's loops take the
// first of the list, the server's those after them. Without -cpus loops are
// pinned only in busy mode, where two of them on one processor would starve each
// other, and only when there are two processors or more.
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

// crowded warns of busy loops that have to share processors. The demo has two
// processes of them.
func (o *options) crowded() string {
	if o.mode != "busy" || o.untilEOF {
		return "" // a server that belongs to the demo: that has warned
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
		return "" // none: they can not be told
	}
	return fmt.Sprintf("-mode busy: %d loops share %d processors, so each waits for others to be let in", loops, len(different))
}

// start starts the loops. It names the processors, as they may be what is wrong.
func start(engine *reactor.Engine, cpus []int) error {
	err := engine.Start()
	if err != nil && cpus != nil {
		return fmt.Errorf("loops on processors %v: %w", cpus, err)
	}
	return err
}
