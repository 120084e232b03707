package main

import (
	"slices"
	"time"
)

// options is what the command line asks for.
type options struct {
	peers     []string // names, or a part of them before a slash; empty for all
	workloads []string // empty for all
	sizes     []int    // bytes of a message in workloads of several sizes
	quick     bool     // less of everything
	duration  time.Duration
	rounds    int    // how often each case is measured
	json      string // file for the rows, "-" for the standard output
	plots     string // directory for the plots
}

// wants reports whether a workload was asked for.
func (o options) wants(workload string) bool {
	return len(o.workloads) == 0 || slices.Contains(o.workloads, workload)
}
