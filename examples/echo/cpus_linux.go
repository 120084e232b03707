package main

import "golang.org/x/sys/unix"

// allowedCPUs returns the processors on which this process may run, or nil if they are
// unknown. Source: sched_getaffinity(2).
func allowedCPUs() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
